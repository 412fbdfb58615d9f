from tests.gateway.stand import stand


def test_the_served_model_is_listed() -> None:
    body = stand().request("GET", "/v1/models").json()
    assert body["object"] == "list"
    assert [(entry["id"], entry["object"], entry["max_model_len"]) for entry in body["data"]] == [
        ("tiny", "model", 512)
    ]


def test_the_served_model_can_be_asked_for_by_name() -> None:
    this = stand()
    assert this.request("GET", "/v1/models/tiny").json() == this.request("GET", "/v1/models").json()["data"][0]


def test_another_name_is_not_found_even_with_a_slash() -> None:
    response = stand().request("GET", "/v1/models/some/other")
    assert response.status_code == 404
    assert response.json()["error"]["code"] == "model_not_found"
