"use strict";
// Rows in, answers out. Every text of a model or a row becomes a text node, so that no name can become markup; rows,
// labels and views are kept in arrays and Maps, so that no name can be mistaken for a property of an object.
(() => {
  const $ = id => document.getElementById(id);
  const BLANK = new Set(["", "?", "na", "n/a", "#n/a", "#na", "<na>", "nan", "-nan", "null", "none"]);
  const NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;
  const SEPARATORS = [["\t", "tabs"], [",", "commas"], [";", "semicolons"]];
  const ROWS_SHOWN = 50, LABELS_SHOWN = 20, RETRIES = 3;
  let token = "", models = [], model = null;
  let file = null; // an uploaded text that is too long for the field
  let request = null, given = []; // the rows that were sent, and their answers
  let rowsShown = ROWS_SHOWN, labelsShown = LABELS_SHOWN;
  let chosen = 0, hidden = new Set(), answer = null, why = null, sets = null, asking = null;

  class Refused extends Error {
    constructor(message, field) { super(message); this.field = field || ""; }
  }

  class Replaced extends Refused {}

  // ------------------------------------------------------------------ elements

  function element(name, properties, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(properties || {})) {
      if (key === "class") made.className = value;
      else if (key in made) made[key] = value;
      else made.setAttribute(key, value);
    }
    made.append(...children);
    return made;
  }

  const named = (text, properties) => element("bdi", properties, String(text)); // a name of any script and direction
  const plural = (n, one) => `${n.toLocaleString("en")} ${one}${n === 1 ? "" : "s"}`;
  const percent = value => `${(100 * value).toFixed(1)} %`;

  function tell(id, error) {
    const place = $(id);
    place.hidden = !error;
    place.replaceChildren();
    if (!error) return;
    place.append(error.message);
    if (error.field) place.append(element("code", {}, error.field));
  }

  // ------------------------------------------------------------------ the service

  function pause(seconds, signal) {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(resolve, 1000 * seconds);
      if (signal) signal.addEventListener("abort", () => { clearTimeout(timer); reject(signal.reason); });
    });
  }

  async function call(path, body, signal) {
    const headers = token ? {Authorization: `Bearer ${token}`} : {};
    if (body !== undefined) headers["Content-Type"] = "application/json";
    const options = {method: body === undefined ? "GET" : "POST", headers, body, signal, cache: "no-store"};
    for (let attempt = 0; ; attempt++) {
      let response, content;
      try {
        response = await fetch(path, options);
        content = response.headers.get("content-type") === "application/json" ? await response.json() : null;
      } catch (error) {
        if (signal && signal.aborted) throw error;
        throw new Refused("The service does not answer. Is it still running?");
      }
      if (response.ok && content) return content;
      if (response.status === 503 && attempt < RETRIES) {
        await pause(Math.min(10, Number(response.headers.get("retry-after")) || 1), signal);
        continue;
      }
      if (response.status === 401) askForToken();
      const said = content && content.error;
      throw new Refused(said ? said.message : `The service answered with ${response.status}.`, said && said.field);
    }
  }

  const address = path => `${path}?model=${encodeURIComponent(model.name)}`;

  function askForToken() {
    $("token-form").hidden = false;
    $("token").focus();
  }

  async function start() {
    try {
      models = (await call("models")).models;
    } catch (error) {
      $("lead").textContent = $("token-form").hidden ? "" : "The service asks for a token.";
      tell("problem", token || $("token-form").hidden ? error : null);
      return;
    }
    tell("problem", null);
    $("token-form").hidden = true;
    $("pick").hidden = models.length < 2;
    $("model").replaceChildren(...models.map((own, i) => element("option", {value: i}, own.name)));
    $("input").hidden = false;
    choose(0);
  }

  function choose(index) {
    model = models[index];
    model.keys = columnsByKey(model);
    $("name").textContent = model.name;
    const parts = [model.method, plural(model.views.length, "view"), plural(model.labels.length, "label"), `version ${model.version}`];
    $("lead").textContent = parts.join(" · ") + (model.problem ? ` · ${model.problem}` : "");
    $("views").replaceChildren(...model.views.map(view =>
      element("li", {class: "chip on"}, named(view.name), `, ${plural(view.n_columns, "column")}`)));
    $("answers").hidden = true;
    $("status").textContent = "";
    tell("refused", null);
  }

  // The folder of a model may be replaced while the page is open: thresholds and labels are then other ones.
  async function checkVersion(found) {
    if (found.version === model.version) return;
    const name = model.name;
    await start();
    choose(Math.max(0, models.findIndex(own => own.name === name)));
    $("model").value = models.indexOf(model);
    throw new Replaced(`The model was replaced while this page was open (now version ${model.version}). Press Predict again.`);
  }

  // ------------------------------------------------------------------ rows from text

  // A column is called view:column; its own name alone will do where only one view has it.
  function columnsByKey(own) {
    const full = new Map(), bare = new Map();
    own.views.forEach((view, v) => view.columns.forEach((column, c) => {
      const key = `${view.name}:${column}`;
      full.set(key, full.has(key) ? null : [v, c]);
      if (view.named) bare.set(column, bare.has(column) ? null : [v, c]);
    }));
    return name => full.has(name) ? full.get(name) : bare.get(name) || null;
  }

  // Lines of fields as RFC 4180 has them; `number` is the line that a record starts in.
  function records(text, separator) {
    const found = [];
    let record = [], field = "", quoted = false, closed = false, line = 1, first = 1;
    const end = () => { record.push(field); field = ""; closed = false; };
    for (let i = 0; i <= text.length; i++) {
      const letter = text[i];
      if (letter === "\n" || letter === undefined || (letter === "\r" && text[i + 1] !== "\n")) line++;
      if (quoted) {
        if (letter === undefined) throw new Refused(`Line ${first}: a quotation mark is not closed.`);
        if (letter !== '"') field += letter;
        else if (text[i + 1] === '"') { field += '"'; i++; }
        else { quoted = false; closed = true; }
      } else if (letter === separator) {
        end();
      } else if (letter === "\n" || letter === "\r" || letter === undefined) {
        if (letter === "\r" && text[i + 1] === "\n") continue;
        end();
        if (record.length > 1 || record[0].trim()) found.push({fields: record, number: first});
        record = [];
        first = line;
      } else if (closed) {
        throw new Refused(`Line ${first}: a letter follows a closing quotation mark.`);
      } else if (letter === '"' && field === "") {
        quoted = true;
      } else {
        field += letter;
      }
    }
    return found;
  }

  function split(text) {
    const head = text.replace(/"[^"]*"/g, "").split(/[\r\n]/).find(line => line.trim()) || "";
    const present = SEPARATORS.filter(([letter]) => head.includes(letter));
    if (!present.length) throw new Refused("Expected a first line with the id and the names of columns, separated by commas, tabs or semicolons.");
    const tables = present.map(([letter]) => records(text, letter));
    const fits = tables.filter(table => table[0].fields.slice(1).every(name => model.keys(name.trim()) || isLabel(name)));
    if (fits.length > 1) throw new Refused("The separator is not clear: the first line can be read in several ways.");
    return fits[0] || tables[0];
  }

  const isLabel = name => /^\s*labels?\s*:/i.test(name);

  function header(names) {
    const places = names.map(name => model.keys(name));
    if (places[0]) throw new Refused(`The first column must hold the ids of the samples; found the column ${names[0]} of the model.`);
    const unknown = names.slice(1).filter((name, i) => !places[i + 1] && !isLabel(name));
    if (unknown.length) {
      const view = model.views[0], example = `${view.name}:${view.columns[0]}`;
      throw new Refused(`${plural(unknown.length, "column")} of no view of the model (or of several): ${few(unknown)}. Columns are named view:column, such as ${example}.`);
    }
    const used = places.map((place, i) => i && place ? place.join(" ") : null).filter(Boolean);
    const twice = used.find((key, i) => used.indexOf(key) < i);
    if (new Set(used).size < used.length) throw new Refused(`The column ${names[places.findLastIndex((place, i) => i && place && place.join(" ") === twice)]} is there twice.`);
    checkWhole(new Set(used));
    return places;
  }

  function checkWhole(used) {
    model.views.forEach((view, v) => {
      const absent = view.columns.filter((_, c) => !used.has(`${v} ${c}`));
      if (absent.length && absent.length < view.columns.length) {
        throw new Refused(`${absent.length} of ${plural(view.columns.length, "column")} of the view ${view.name} are absent: ${few(absent)}. Leave a value blank where it was not measured.`);
      }
    });
  }

  const few = names => names.slice(0, 5).map(name => name.slice(0, 60)).join(", ") + (names.length > 5 ? ", …" : "");

  function number(text, place) {
    const word = text.trim().toLowerCase();
    if (BLANK.has(word)) return null;
    if (word === "true" || word === "false") return Number(word === "true");
    if (NUMBER.test(word) && Number.isFinite(Number(word))) return Number(word);
    const advice = /^[+-]?\d*,\d+$/.test(word) ? `; write a decimal point: ${word.replace(",", ".")}` : "";
    throw new Refused(`${place}: expected a number or a blank, found ${text.slice(0, 40)}${advice}.`);
  }

  function readTable(text) {
    const [first, ...lines] = split(text);
    const names = first.fields.map(name => name.trim());
    const places = header(names);
    if (!lines.length) throw new Refused("There is a first line with names, and no row below it.");
    const seen = new Map();
    const rows = lines.map(({fields, number: line}) => {
      const id = fields[0].trim();
      if (fields.length !== names.length) throw new Refused(`Line ${line} (${id}) has ${plural(fields.length, "field")}, the first line has ${names.length}.`);
      if (!id) throw new Refused(`Line ${line} has no id in its first column.`);
      if (seen.has(id)) throw new Refused(`The id ${id} is in line ${seen.get(id)} and in line ${line}; ids must differ.`);
      seen.set(id, line);
      const values = model.views.map(view => new Array(view.columns.length).fill(null));
      places.forEach((place, i) => {
        if (i && place) values[place[0]][place[1]] = number(fields[i], `Line ${line} (${id}), column ${names[i]}`);
      });
      return {id, views: entries(model.views.map((view, v) => [view.name, values[v].every(value => value === null) ? null : values[v]]))};
    });
    const columns = entries(model.views.filter(view => view.named).map(view => [view.name, view.columns]));
    const labels = names.filter((name, i) => i && !places[i]);
    const notes = labels.length ? [`Not read, since these are labels: ${few(labels)}`] : [];
    return {columns, rows, notes};
  }

  const entries = pairs => Object.fromEntries(pairs); // defines "__proto__" as a key like any other

  // The text goes to the service as it is, which refuses what JSON.parse would overlook (a key that is there twice).
  function readJson(text) {
    let value;
    try { value = JSON.parse(text); } catch (error) { throw new Refused(`This is not JSON: ${error.message}`); }
    const whole = !Array.isArray(value) && Object.hasOwn(value, "rows");
    const rows = whole ? value.rows : [value].flat();
    const body = whole ? text : `{"rows": ${Array.isArray(value) ? text : `[${text}]`}}`;
    if (!Array.isArray(rows)) return {body, rows: [], notes: []}; // the service says what is wrong
    const large = rows.find(row => row && typeof row.id === "number" && !Number.isSafeInteger(row.id));
    if (large) throw new Refused(`The id ${large.id} is no whole number that a browser can hold; write it as text.`);
    return {body, columns: whole && Object.hasOwn(value, "columns") ? value.columns : null, rows, notes: []};
  }

  const rowsOf = text => /^\s*[[{]/.test(text) ? readJson(text) : readTable(text);

  // ------------------------------------------------------------------ asking

  // Parts of the rows that the service takes in one request each.
  function* parts(own) {
    const head = JSON.stringify(own.columns || null);
    const most = .8 * model.max_body - head.length;
    let texts = [], length = 0;
    for (const row of own.rows) {
      const text = JSON.stringify(row);
      if (texts.length && (texts.length >= model.max_rows || length + text.length > most)) {
        yield `{"columns": ${head}, "rows": [${texts}]}`;
        [texts, length] = [[], 0];
      }
      texts.push(text);
      length += text.length + 1;
    }
    yield `{"columns": ${head}, "rows": [${texts}]}`;
  }

  async function predictAll(event) {
    event.preventDefault();
    const text = file === null ? $("rows").value : file;
    tell("refused", null);
    $("predict").disabled = true;
    $("status").textContent = "Predicting …";
    try {
      if (!text.trim()) throw new Refused("There are no rows yet. Paste some, upload a file, or begin with an example.");
      const own = rowsOf(text.replace(/^\ufeff/, ""));
      const found = [], notes = [...own.notes];
      for (const body of own.body === undefined ? parts(own) : [own.body]) {
        const part = await call(address("predict"), body);
        await checkVersion(part);
        const before = found.length ? `From row ${found.length + 1} on: ` : "";
        found.push(...part.rows);
        notes.push(...part.notes.map(note => before + note));
        $("status").textContent = `Predicting … ${found.length} of ${plural(own.rows.length, "row")}`;
      }
      [request, given] = [own, found];
      showAnswers(notes);
      $("status").textContent = `${plural(found.length, "row")} predicted.`;
    } catch (error) {
      $("status").textContent = "";
      $("answers").hidden = true;
      tell("refused", error);
    }
    $("predict").disabled = false;
  }

  // The row as it was given, without the views that are switched off.
  function bodyOfRow() {
    const row = request.rows[chosen];
    const kept = Object.entries(row.views).filter(([name]) => !hidden.has(name));
    return JSON.stringify({columns: request.columns || null, rows: [{id: row.id ?? null, views: entries(kept)}]});
  }

  // Ask again for the row that is shown; what was asked before is not waited for any more.
  async function ask() {
    if (asking) asking.abort();
    const own = asking = new AbortController();
    tell("row-problem", null);
    try {
      const body = bodyOfRow();
      const asked = hidden.size ? await call(address("predict"), body, own.signal) : null;
      if (own !== asking) return;
      if (asked) await checkVersion(asked);
      [answer, why, sets] = [asked ? asked.rows[0] : given[chosen], null, null];
      showChange();
      showLabels();
      await Promise.all([askWhy(body, own), askSets(body, own)]);
    } catch (error) {
      if (own === asking && !own.signal.aborted) tell(error instanceof Replaced ? "refused" : "row-problem", error);
    }
  }

  async function askWhy(body, own) {
    $("why").textContent = "";
    if (answer.no_view) return;
    try {
      const found = await call(address("explain"), body, own.signal);
      if (own !== asking) return;
      await checkVersion(found);
      why = found.rows[0].labels;
      $("why").textContent = "Below a label: its share in the training data, and what each view of the row adds to or takes from it, in percentage points. This is what the model used, not what causes the label.";
      showLabels();
    } catch (error) {
      if (error instanceof Replaced) throw error;
      if (own === asking && !own.signal.aborted) $("why").textContent = `No contributions of views: ${error.message}`;
    }
  }

  async function askSets(body, own) {
    $("promise").textContent = "";
    if (!model.label_sets) return;
    try {
      const found = await call(address("decide"), body, own.signal);
      if (own !== asking) return;
      await checkVersion(found);
      sets = found.rows[0].labels;
      $("promise").textContent = `Certain, possible, ruled out: ${found.promise}; if ${found.assumption}.`;
      showLabels();
    } catch (error) {
      if (error instanceof Replaced) throw error;
      if (own === asking && !own.signal.aborted) $("promise").textContent = `No label sets: ${error.message}`;
    }
  }

  // ------------------------------------------------------------------ rows

  function measured(row, name) {
    const values = row.views && Object.hasOwn(row.views, name) ? row.views[name] : null;
    return values !== null && Object.values(values).some(value => value !== null);
  }

  const nameOf = index => request.rows[index].id ?? `row ${index + 1}`;

  function showAnswers(notes) {
    $("notes").replaceChildren(...notes.map(note => element("li", {}, note)));
    $("find").value = "";
    $("find-line").hidden = given.length <= 8;
    $("answers").hidden = false;
    rowsShown = ROWS_SHOWN;
    showRows();
    chooseRow(0);
    $("answers").scrollIntoView({block: "start"});
    $("row-name").focus({preventScroll: true});
  }

  function showRows() {
    const words = $("find").value.trim().toLowerCase();
    const fits = request.rows.map((_, i) => i).filter(i => !words || String(nameOf(i)).toLowerCase().includes(words));
    $("count").textContent = words ? `${fits.length} of ${plural(given.length, "row")}` : plural(given.length, "row");
    $("list").replaceChildren(...fits.slice(0, rowsShown).map(rowLine));
    $("more").hidden = fits.length <= rowsShown;
  }

  function rowLine(index) {
    const row = request.rows[index];
    const missing = model.views.filter(view => !measured(row, view.name)).map(view => view.name);
    const positive = model.labels.filter(label => decided(given[index], label.name));
    const input = element("input", {type: "radio", name: "row", value: index, checked: index === chosen});
    input.addEventListener("change", () => chooseRow(index));
    const said = element("span", {class: "small"}, positive.length ? `${plural(positive.length, "label")}: ` : "no label");
    positive.slice(0, 3).forEach((label, i) => said.append(i ? ", " : "", named(label.name)));
    if (positive.length > 3) said.append(", …");
    if (missing.length) {
      said.append(element("br"), missing.length === model.views.length ? "no view at all" : "without ");
      if (missing.length < model.views.length) missing.forEach((name, i) => said.append(i ? ", " : "", named(name)));
    }
    return element("label", {class: "row"}, input, element("b", {}, named(nameOf(index))), said);
  }

  function chooseRow(index) {
    [chosen, hidden, answer, labelsShown] = [index, new Set(), given[index], LABELS_SHOWN];
    $("row-name").replaceChildren(named(nameOf(index)));
    $("search").value = "";
    $("search-line").hidden = model.labels.length <= 8;
    $("switch-list").replaceChildren(...model.views.map(viewSwitch));
    ask();
  }

  function viewSwitch(view) {
    const there = measured(request.rows[chosen], view.name);
    const input = element("input", {type: "checkbox", role: "switch", checked: there, disabled: !there});
    const made = element("label", {class: there ? "switch" : "switch absent"}, input, named(view.name), there ? "" : "missing");
    input.addEventListener("change", () => {
      if (input.checked) hidden.delete(view.name); else hidden.add(view.name);
      made.classList.toggle("off", !input.checked);
      ask();
    });
    return made;
  }

  // ------------------------------------------------------------------ labels

  const decided = (row, label) => {
    const value = row.decisions[label];
    return value !== null && value !== 0;
  };

  function showChange() {
    const place = $("change");
    place.replaceChildren();
    if (answer.no_view) {
      place.append(hidden.size ? "Without any view" : "This row has no view", ": the answer is the share of each label in the training data.");
      return;
    }
    if (!hidden.size) return;
    const turned = model.labels.filter(label => given[chosen].decisions[label.name] !== answer.decisions[label.name]);
    place.append("Without ");
    [...hidden].forEach((name, i) => place.append(i ? ", " : "", named(name)));
    place.append(turned.length ? `, ${plural(turned.length, "decision")} of ${model.labels.length} ${turned.length === 1 ? "changes" : "change"}: ` : ", no decision changes.");
    turned.slice(0, 5).forEach((label, i) => place.append(i ? ", " : "", named(label.name)));
    if (turned.length > 5) place.append(", …");
  }

  function inOrder(labels) {
    const now = label => answer.probabilities[label.name] ?? -1;
    const change = label => Math.abs(now(label) - (given[chosen].probabilities[label.name] ?? -1));
    const kinds = {probability: now, change, model: () => 0};
    const size = kinds[$("order").value];
    return [...labels].sort((one, other) => size(other) - size(one));
  }

  function showLabels() {
    const words = $("search").value.trim().toLowerCase();
    const fits = inOrder(model.labels.filter(label => label.name.toLowerCase().includes(words)));
    $("labels").replaceChildren(...fits.slice(0, labelsShown).map(labelLine));
    $("more-labels").hidden = fits.length <= labelsShown;
    $("more-labels").textContent = `All ${plural(fits.length, "label")}`;
  }

  function labelLine(label) {
    const value = answer.probabilities[label.name], before = given[chosen].probabilities[label.name];
    const line = element("li", {class: "answer"}, element("span", {class: "name"}, named(label.name)));
    line.dataset.label = label.name;
    if (value === null) {
      line.append(element("span", {class: "word"}, "never observed in training"));
      return line;
    }
    const yes = decided(answer, label.name);
    line.classList.toggle("is-yes", yes);
    const said = element("span", {class: "said"}, element("data", {value: String(value)}, percent(value)), " · ");
    const word = element("span", {class: yes ? "yes" : "word"}, wordOf(label));
    if (answer.decisions[label.name] !== given[chosen].decisions[label.name]) word.className = "turned";
    said.append(word);
    if (sets) said.append(element("span", {class: `set ${sets[label.name].replace(" ", "-")}`}, sets[label.name]));
    line.append(said, bar(label, value, before));
    if (value !== before) line.append(element("span", {class: "was small"}, `${percent(before)} with all views of the row`));
    if (why) line.append(contributions(why[label.name]));
    return line;
  }

  // Views by the size of what they contribute; one that rounds to nothing is named all the same.
  function contributions(found) {
    const parts = model.views.filter(view => (found.contributions[view.name] ?? null) !== null)
      .map(view => [view.name, found.contributions[view.name]])
      .sort((one, other) => Math.abs(other[1]) - Math.abs(one[1]));
    const list = element("ul", {class: "parts", "aria-label": "Contributions of views"}, element("li", {}, `in training ${percent(found.base)}`));
    for (const [name, value] of parts) {
      const size = element("i", {class: value < 0 ? "down" : "up"});
      size.style.width = `${Math.max(2, 60 * Math.abs(value))}px`;
      const shown = `${value < 0 ? "−" : "+"}${(100 * Math.abs(value)).toFixed(1)}`;
      list.append(element("li", {}, size, named(name), element("data", {value: String(value)}, shown)));
    }
    return list;
  }

  function wordOf(label) {
    const value = answer.decisions[label.name];
    return value === 0 ? "no" : value === 1 ? "yes" : String(value);
  }

  // Widths are set through the object model: the page allows no style in its markup.
  function bar(label, value, before) {
    const fill = element("i"), limit = element("b");
    fill.style.width = `${100 * value}%`;
    limit.style.left = `${100 * label.threshold}%`;
    const made = element("span", {class: "bar", role: "img", "aria-label": `${percent(value)}, threshold ${percent(label.threshold)}`}, fill, limit);
    if (value !== before) {
      const was = element("u");
      was.style.left = `${100 * before}%`;
      made.append(was);
    }
    return made;
  }

  // ------------------------------------------------------------------ examples and files

  async function example(asTable) {
    tell("refused", null);
    try {
      const found = await call(address("example"));
      setText(asTable ? tableOf(found.rows) : JSON.stringify(found, null, 1));
    } catch (error) {
      tell("refused", error);
    }
  }

  const quoted = text => /[",;\t\r\n]|^\s|\s$/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;

  function tableOf(rows) {
    const names = model.views.flatMap(view => view.columns.map(column => `${view.name}:${column}`));
    const lines = rows.map(row => [row.id, ...model.views.flatMap(view => {
      const values = Object.hasOwn(row.views, view.name) ? row.views[view.name] : null;
      if (values === null) return view.columns.map(() => "");
      return view.columns.map((column, c) => Array.isArray(values) ? values[c] : values[column]);
    })]);
    return [["id", ...names], ...lines].map(line => line.map(value => quoted(String(value ?? ""))).join(",")).join("\n") + "\n";
  }

  function setText(text) {
    file = null;
    $("rows").value = text;
    $("rows").disabled = false;
    $("status").textContent = "";
  }

  async function upload(event) {
    const [own] = event.target.files;
    event.target.value = "";
    if (!own) return;
    tell("refused", null);
    try {
      if (own.size > 2 ** 28) throw new Refused(`${own.name} is larger than 256 MiB; use viewgap predict for it.`);
      const text = new TextDecoder("utf-8", {fatal: true}).decode(await own.arrayBuffer());
      setText(text.length < 2 ** 18 ? text : "");
      if (text.length >= 2 ** 18) {
        file = text;
        $("rows").value = `${own.name} (${(own.size / 2 ** 20).toFixed(1)} MiB) is read when you press Predict.`;
        $("rows").disabled = true;
      }
      $("status").textContent = `${own.name} is here.`;
    } catch (error) {
      tell("refused", error instanceof Refused ? error : new Refused(`${own.name} is not UTF-8 text; save the table as CSV (UTF-8).`));
    }
  }

  // ------------------------------------------------------------------ what the page listens to

  $("token-form").addEventListener("submit", event => {
    event.preventDefault();
    token = $("token").value.trim();
    if (/^[\x21-\x7e]+$/.test(token)) start();
    else tell("problem", new Refused("A token has letters, digits and signs of ASCII only."));
  });
  $("model").addEventListener("change", event => choose(Number(event.target.value)));
  $("rows-form").addEventListener("submit", predictAll);
  $("rows").addEventListener("keydown", event => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) $("rows-form").requestSubmit();
  });
  $("file").addEventListener("change", upload);
  $("example-table").addEventListener("click", () => example(true));
  $("example-json").addEventListener("click", () => example(false));
  $("find").addEventListener("input", () => { rowsShown = ROWS_SHOWN; showRows(); });
  $("more").addEventListener("click", () => { rowsShown *= 4; showRows(); });
  $("order").addEventListener("change", showLabels);
  $("search").addEventListener("input", showLabels);
  $("more-labels").addEventListener("click", () => { labelsShown = Infinity; showLabels(); });
  start();
})();
