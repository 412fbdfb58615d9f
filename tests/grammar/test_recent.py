from dayzero.grammar.recent import Recent


def test_a_flood_of_grammars_is_forgotten_from_its_oldest_on() -> None:
    recent: Recent[int] = Recent(2000)
    for number in range(10_000):
        recent.put(f"start: /{number}/", number, 100 + number % 50)
        assert recent.num_bytes <= 2000
    assert recent.get("start: /0/") is None
    assert recent.get("start: /9999/") == 9999


def test_what_is_asked_for_stays() -> None:
    recent: Recent[str] = Recent(300)
    recent.put("a", "A", 100)
    for number in range(50):
        recent.put(str(number), "", 100)
        assert recent.get("a") == "A"


def test_what_is_put_again_counts_once_and_what_is_too_large_is_not_kept() -> None:
    recent: Recent[str] = Recent(300)
    for _ in range(9):
        recent.put("a", "A", 100)
    assert recent.num_bytes == 100
    recent.put("b", "B", 301)
    assert recent.get("b") is None
    assert recent.get("a") == "A"  # nor does it push out what is
