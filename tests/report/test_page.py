from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from viewgap.report import MethodResult, Story, ViewTrust, render_report

Make = Callable[..., Story]


def test_all_sections_are_there(make_story: Make) -> None:
    page = render_report(make_story())
    for section in ("missing", "results", "ap-bars", "views-chart", "table", "trust", "gallery"):
        assert f'id="{section}"' in page
    assert page.count('class="card w6 training"') == 3
    assert page.count("data:image/png;base64,") == 4


def test_the_headline_follows_the_numbers(make_story: Make) -> None:
    page = render_report(make_story())
    assert "SCSD still ranks the digits best." in page
    assert "Average precision 0.710 on 100 canvases" in page
    assert "0.100 above the best of the simple picks, a simple pick." in page


def test_a_defeat_is_told_as_one(make_story: Make) -> None:
    better = MethodResult("winner", dict.fromkeys(make_story().results[0].metrics, 0.8), 1.0)
    page = render_report(make_story(results=[*make_story().results, better]))
    assert "Winner ranks the digits best; SCSD is number 2 of 4." in page
    assert "0.090 below the best of the simple picks, winner." in page
    assert "still ranks" not in page


def test_other_rates_are_told_in_percent(make_story: Make) -> None:
    page = render_report(make_story(view_rate=0.3, label_rate=0.0))
    assert "30 % of the views and 0 % of the labels are missing." in page


def test_texts_from_data_are_escaped(make_story: Make) -> None:
    page = render_report(make_story(dataset="<img src=x onerror=alert(1)>", command='"><b>'))
    assert "<script" not in page.lower()
    assert "<img src=x" not in page
    assert '"><b>' not in page
    assert "&lt;script&gt;" in page


def test_nothing_comes_from_outside(make_story: Make) -> None:
    page = render_report(make_story())
    for attribute in re.findall(r'(?:src|href)="([^"]*)"', page):
        assert attribute.startswith("data:")
    assert not re.findall(r"url\(|@import|https?://", page)


def test_one_best_value_per_column_is_marked(make_story: Make) -> None:
    page = render_report(make_story())
    assert page.count('class="best"') == 6


def test_equal_and_unequal_trust_are_told(make_story: Make) -> None:
    assert "The views are trusted alike." in render_report(make_story())
    trust = [ViewTrust("pixels", 0.4, 0.3), ViewTrust("fourier", 0.6, None)]
    page = render_report(make_story(trust=trust))
    assert "Fourier is trusted most." in page
    assert page.index("<th>fourier</th>") < page.index("<th>pixels</th>")


def test_deviations_appear_with_several_folds(make_story: Make) -> None:
    first = make_story().results[1]
    spread = dict.fromkeys(first.metrics, 0.012)
    several = MethodResult(first.title, first.metrics, 1.0, spread=spread)
    page = render_report(make_story(results=[several], folds=3))
    assert "± 0.012" in page
    assert "mean of 3 folds" in page
    assert "±" not in render_report(make_story())


@pytest.mark.parametrize(
    "absent", [{"trust": ()}, {"history": {}}, {"examples": ()}, {"best_epoch": None}]
)
def test_a_shorter_story_is_a_shorter_page(make_story: Make, absent: dict[str, object]) -> None:
    assert len(render_report(make_story(**absent))) < len(render_report(make_story()))
