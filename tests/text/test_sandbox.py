from datetime import datetime

import pytest
from jinja2.exceptions import SecurityError

from dayzero.text.sandbox import Raised, TemplateEnvironment


def render(source: str, **values: object) -> str:
    return TemplateEnvironment(lambda: datetime(2026, 12, 1)).from_string(source).render(**values)


def test_json_is_not_escaped_for_html():
    assert render("{{ x | tojson }}", x={"é": "<'&>"}) == '{"é": "<\'&>"}'
    assert render("{{ x | tojson(indent=1, separators=(',', ':'), sort_keys=true) }}", x={"b": 1, "a": 2}) == (
        '{\n "a":2,\n "b":1\n}'
    )


def test_time_is_the_clock_that_was_given():
    assert render("{{ strftime_now('%d %b %Y') }}") == "01 Dec 2026"


def test_loops_can_break_and_generation_marks_vanish():
    assert render("{% for i in range(9) %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% endfor %}") == "01"
    assert render("a{% generation %}b{{ x }}{% endgeneration %}c", x=1) == "ab1c"


def test_a_template_can_refuse():
    with pytest.raises(Raised, match="no system"):
        render("{{ raise_exception('no system') }}")


@pytest.mark.parametrize(
    "source",
    [
        "{{ 'a' * 10**9 }}",
        "{{ [1] * 10**9 }}",
        "{{ 10**9 * 'a' }}",
        "{{ 9**9**9 }}",
        "{% set n = namespace(x='a') %}{% for i in range(60) %}{% set n.x = n.x + n.x %}{% endfor %}",
        "{% set n = namespace(x=3) %}{% for i in range(60) %}{% set n.x = n.x * n.x %}{% endfor %}",
        "{{ ().__class__.__mro__ }}",
        "{{ ''.__class__.__base__ }}",
        "{{ cycler.__init__.__globals__ }}",
        "{{ raise_exception.__globals__['json'] }}",
        "{{ '{0.__class__.__mro__}'.format(x) }}",
        "{{ x.append(1) }}",
    ],
)
def test_escapes_and_explosions_are_refused(source):
    with pytest.raises(SecurityError):
        render(source, x=[1])


@pytest.mark.parametrize(
    ("source", "text"), [("{{ 'ab' * 3 }}", "ababab"), ("{{ 2**10 + 1 }}", "1025"), ("{{ -3 * 2 }}", "-6")]
)
def test_ordinary_arithmetic_works(source, text):
    assert render(source) == text
