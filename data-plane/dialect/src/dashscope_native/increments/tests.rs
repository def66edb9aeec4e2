use proptest::prelude::*;
use serde_json::json;

use super::*;

/// An event of one choice.
fn event(reasoning: &str, content: &str, tokens: u64, finish: &str) -> Event {
    let message = json!({ "content": content, "reasoning_content": reasoning });
    let choice = json!({ "message": message, "finish_reason": finish });
    let answered = json!({
        "output": { "choices": [choice] },
        "usage": { "input_tokens": 1, "output_tokens": tokens },
    });
    Event::of(serde_json::from_value(answered).unwrap())
}

/// Plays contents, the last with a finish reason: what comes out, and how many events were given
/// for each.
fn play(contents: &[&str]) -> Result<(String, Vec<usize>), Fault> {
    let mut increments = Increments::new();
    let (mut said, mut given) = (String::new(), Vec::new());
    for (index, content) in contents.iter().enumerate() {
        let finish = if index + 1 == contents.len() { "stop" } else { "null" };
        let events = increments.take(event("", content, index as u64 + 1, finish))?;
        given.push(events.len());
        said.extend(events.iter().flat_map(|event| &event.deltas).map(|it| it.content.as_str()));
    }
    Ok((said, given))
}

#[test]
fn pieces_pass_at_once() {
    check(&["Bl", "ue", ""], "Blue", &[1, 1, 1]);
    check(&["Bl", "ue"], "Blue", &[1, 1]);
    check(&["", "Bl", "ue", ""], "Blue", &[1, 1, 1, 1]);
    check(&["ha", "ha", "ha", ""], "hahaha", &[1, 1, 1, 1]);
    // 110, and not 10: held back until the third tells.
    check(&["1", "10", ""], "110", &[1, 0, 2]);
    check(&["A"], "A", &[1]);

    #[track_caller]
    fn check(contents: &[&str], said: &str, given: &[usize]) {
        assert_eq!(play(contents), Ok((said.to_owned(), given.to_vec())));
    }
}

#[test]
fn c2_what_was_said_before_is_cut_off() {
    check(&["Bl", "Blue", "Blue sky", "Blue sky."], "Blue sky.", &[1, 0, 2, 1]);
    check(&["Bl", "Blue"], "Blue", &[1, 1]);
    check(&["", "Bl", "Blue", "Blue"], "Blue", &[1, 1, 0, 2]);
    check(
        &["Bl\u{fffd}", "Bl\u{e9}\u{fffd}", "Bl\u{e9}u", "Bl\u{e9}ue"],
        "Bl\u{e9}ue",
        &[0, 0, 3, 1],
    );

    #[track_caller]
    fn check(contents: &[&str], said: &str, given: &[usize]) {
        assert_eq!(play(contents), Ok((said.to_owned(), given.to_vec())));
    }
}

#[test]
fn thoughts_are_repeated_beside_the_text() {
    let mut increments = Increments::new();
    let mut take = |event| {
        let events = increments.take(event).unwrap();
        let deltas = events.into_iter().flat_map(|event| event.deltas);
        deltas.map(|it| (it.reasoning, it.content)).collect::<Vec<_>>()
    };
    let pair = |reasoning: &str, content: &str| (reasoning.to_owned(), content.to_owned());
    assert_eq!(take(event("Hm", "", 1, "null")), [pair("Hm", "")]);
    assert_eq!(take(event("Hm", "Bl", 2, "null")), []);
    assert_eq!(take(event("Hm", "Blue", 3, "null")), []);
    let expected = [pair("", "Bl"), pair("", "ue"), pair("", "!")];
    assert_eq!(take(event("Hm", "Blue!", 4, "null")), expected);
    assert_eq!(take(event("Hm", "Blue!", 4, "stop")), [pair("", "")]);
}

#[test]
fn arguments_of_calls_are_cut_too() {
    let fragment = |arguments: &str, finish: &str| {
        let call =
            json!({ "index": 0, "id": "c", "function": { "name": "f", "arguments": arguments } });
        let choice =
            json!({ "message": { "content": "", "tool_calls": [call] }, "finish_reason": finish });
        Event::of(serde_json::from_value(json!({ "output": { "choices": [choice] } })).unwrap())
    };
    let mut increments = Increments::new();
    let mut said = String::new();
    for (arguments, finish) in
        [("{\"a\"", "null"), ("{\"a\":1", "null"), ("{\"a\":1}", "tool_calls")]
    {
        for event in increments.take(fragment(arguments, finish)).unwrap() {
            said.extend(
                event.deltas.iter().flat_map(|it| &it.calls).map(|it| it.arguments.as_str()),
            );
        }
    }
    assert_eq!(said, "{\"a\":1}");
}

#[test]
fn what_was_said_cannot_be_taken_back() {
    let fault = play(&["Bl", "Blue", "Blue sky", "Red", "Red"]).unwrap_err();
    assert_eq!(fault.outcome, Outcome::ProviderError);
}

proptest! {
    #[test]
    fn everything_so_far_adds_up_to_the_text(pieces in prop::collection::vec("[a-zé ]{1,6}", 1..12)) {
        let so_far: Vec<String> =
            (1..=pieces.len()).map(|count| pieces.iter().take(count).map(String::as_str).collect()).collect();
        let so_far: Vec<&str> = so_far.iter().map(String::as_str).collect();
        prop_assert_eq!(play(&so_far).unwrap().0, pieces.concat());
    }

    #[test]
    fn pieces_add_up_to_the_text(first in "[a-m]{1,4}", pieces in prop::collection::vec("[n-z][a-z]{0,5}", 1..12)) {
        let mut all = vec![first.as_str()];
        all.extend(pieces.iter().map(String::as_str));
        prop_assert_eq!(play(&all).unwrap().0, all.concat());
    }
}
