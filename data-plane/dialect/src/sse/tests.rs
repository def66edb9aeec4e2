use proptest::prelude::*;

use super::*;

/// Event name and data of every frame, however the bytes are cut.
fn frames(chunks: &[&[u8]]) -> Vec<(Option<String>, Option<String>)> {
    let mut framer = Framer::default();
    let mut found = Vec::new();
    for chunk in chunks {
        framer.push(Bytes::copy_from_slice(chunk));
        while let Some(frame) = framer.next_frame().unwrap() {
            found.push(frame);
        }
    }
    found.extend(framer.finish());
    found
        .into_iter()
        .map(|frame| {
            let data = frame.data().map(|data| String::from_utf8_lossy(&data).into_owned());
            (frame.event().map(str::to_owned), data)
        })
        .collect()
}

fn data(name: &str) -> (Option<String>, Option<String>) {
    (None, Some(name.to_owned()))
}

#[test]
fn every_line_end_and_field_form() {
    check("data: a\n\ndata: b\n\n", &[data("a"), data("b")]);
    check("data: a\r\n\r\ndata: b\r\n\r\n", &[data("a"), data("b")]);
    check("data: a\r\rdata: b\r\r", &[data("a"), data("b")]);
    check("data:a\n\n", &[data("a")]);
    check("data:  a\n\n", &[data(" a")]);
    check("data\n\n", &[data("")]);
    check("data: a\ndata: b\ndata: c\n\n", &[data("a\nb\nc")]);
    check("event: e\ndata: a\n\n", &[(Some("e".into()), Some("a".into()))]);
    check(": ping\n\ndata: a\n\n", &[(None, None), data("a")]);
    check("\u{feff}data: a\n\n", &[data("a")]);
    check("\n\n\ndata: a\n\n\n\n", &[data("a")]);
    // A mark that is not at the beginning is none.
    check("\n\u{feff}data: a\n\n", &[(None, None)]);
    check("\u{feff}\u{feff}data: a\n\n", &[(None, None)]);
    check("data: a", &[data("a")]);
    check("data: a\n", &[data("a")]);
    check("database: a\n\n", &[(None, None)]);
    check("data: \": [\": x: y\n\n", &[data("\": [\": x: y")]);
    check(": only a comment", &[]);

    #[track_caller]
    fn check(text: &str, expected: &[(Option<String>, Option<String>)]) {
        assert_eq!(frames(&[text.as_bytes()]), expected);
        let bytes: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
        assert_eq!(frames(&bytes), expected, "bytewise");
    }
}

#[test]
fn an_event_leaves_as_soon_as_it_is_whole() {
    check(&["data: a\n", "\n"]);
    check(&["data: a\r\n\r\n"]);
    check(&["data: a\r\n", "\r"]);
    check(&["data: a\r", "\r"]);

    #[track_caller]
    fn check(chunks: &[&'static str]) {
        let mut framer = Framer::default();
        for (index, chunk) in chunks.iter().enumerate() {
            framer.push(Bytes::from_static(chunk.as_bytes()));
            let frame = framer.next_frame().unwrap();
            assert_eq!(frame.is_some(), index + 1 == chunks.len(), "after {chunk:?}");
        }
    }
}

#[test]
fn the_wire_form_is_canonical_and_costs_nothing_when_it_came_so() {
    let chunk = Bytes::from_static(b"data: {\"a\":1}\n\nevent: x\ndata:b\r\n\r\n: hi\n\n");
    let mut framer = Framer::default();
    framer.push(chunk.clone());
    let first = framer.next_frame().unwrap().unwrap();
    assert_eq!(first.to_wire(), "data: {\"a\":1}\n\n");
    assert_eq!(first.to_wire().as_ptr(), chunk.as_ptr());
    assert_eq!(framer.next_frame().unwrap().unwrap().to_wire(), "event: x\ndata: b\n\n");
    assert_eq!(framer.next_frame().unwrap().unwrap().to_wire(), ": hi\n\n");
}

#[test]
fn a_large_event_passes_and_a_too_large_one_is_an_error() {
    let body = "x".repeat(1_200_000);
    let text = format!("data: {body}\n\n");
    let chunks: Vec<&[u8]> = text.as_bytes().chunks(1000).collect();
    assert_eq!(frames(&chunks), [data(&body)]);

    let mut framer = Framer::with_limit(100);
    framer.push(Bytes::from(vec![b'x'; 101]));
    assert_eq!(framer.next_frame(), Err(EventTooLarge { limit: 100 }));
}

proptest! {
    #[test]
    fn any_segmentation_gives_the_same_frames(
        parts in prop::collection::vec(prop::sample::select(vec![
            "data: a", "data:b", "event: e", ": c", "\n", "\r\n", "\r", "\n\n", "\r\n\r\n", "é", "data: {\"k\":\"你好\"}",
        ]), 0..20),
        cuts in prop::collection::vec(1_usize..7, 1..60),
    ) {
        let text = parts.concat();
        let whole = frames(&[text.as_bytes()]);
        let mut rest = text.as_bytes();
        let mut chunks = Vec::new();
        for cut in cuts.iter().cycle() {
            if rest.is_empty() { break; }
            let (chunk, after) = rest.split_at((*cut).min(rest.len()));
            chunks.push(chunk);
            rest = after;
        }
        prop_assert_eq!(frames(&chunks), whole);
    }

    #[test]
    fn the_wire_form_reads_back_as_the_same_event(
        name in prop::option::of("[a-z.]{1,12}"), data in "[ -~\u{4e00}-\u{4e10}]{0,40}",
    ) {
        let wire = write_event(name.as_deref(), data.as_bytes());
        prop_assert_eq!(frames(&[&wire]), vec![(name, Some(data))]);
    }
}
