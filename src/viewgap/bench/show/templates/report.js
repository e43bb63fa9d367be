"use strict";
// Search and sort in one table, of tasks or labels. Without this script the table is there all the same.
(() => {
  const table = document.querySelector("#task-table");
  const body = table.tBodies[0];
  const rows = [...body.rows];
  const input = document.querySelector("#search");
  const count = document.querySelector("#count");
  const texts = new Map(rows.map(row => [row, row.textContent.toLowerCase()]));

  function search() {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of rows) {
      row.hidden = !words.every(word => texts.get(row).includes(word));
      shown += !row.hidden;
    }
    count.textContent = `${shown} of ${rows.length} ${table.dataset.noun}`;
  }

  // A missing value has no place in any order: it stays below.
  function compare(one, other, numeric) {
    if (!numeric) return one.localeCompare(other, "en", {numeric: true});
    return Number(one) - Number(other);
  }

  function sort(heading) {
    const index = heading.cellIndex;
    const numeric = heading.hasAttribute("data-numeric");
    const down = heading.getAttribute("aria-sort") === "ascending";
    for (const other of heading.parentNode.cells) other.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", down ? "descending" : "ascending");
    const text = row => row.cells[index].textContent.trim();
    const isMissing = value => value === "" || (numeric && Number.isNaN(Number(value)));
    rows.sort((a, b) => {
      const [one, other] = [text(a), text(b)];
      if (isMissing(one) || isMissing(other)) return isMissing(one) - isMissing(other);
      return (down ? -1 : 1) * compare(one, other, numeric);
    });
    body.append(...rows);
  }

  for (const heading of table.tHead.rows[0].cells) {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...heading.childNodes);
    heading.append(button);
    button.addEventListener("click", () => sort(heading));
  }
  input.addEventListener("input", search);
  document.querySelector("#controls").hidden = false;
  search();
})();
