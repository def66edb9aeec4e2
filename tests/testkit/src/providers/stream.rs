//! The events of a stream, and how it ends where it was asked to break off.

use bytes::Bytes;

use super::answer::{Break, How};
use super::rows::ErrorRow;
use super::scene::Scene;
use crate::upstream::Step;

/// Events in order. Each is one write.
#[derive(Debug, Default)]
pub(super) struct Events(Vec<(Kind, Bytes)>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Carries a part of the answer: text, reasoning or arguments.
    Content,
    Other,
}

impl Events {
    /// An event that carries a part of the answer.
    pub(super) fn content(&mut self, event: impl Into<Bytes>) {
        self.0.push((Kind::Content, event.into()));
    }

    /// Any other event.
    pub(super) fn other(&mut self, event: impl Into<Bytes>) {
        self.0.push((Kind::Other, event.into()));
    }

    /// The answer that is this stream; `error` writes an error row as an event or several.
    pub(super) fn steps(
        self,
        scene: &Scene,
        head: Step,
        broken: Option<Break>,
        error: impl FnOnce(&'static ErrorRow) -> Bytes,
    ) -> Vec<Step> {
        let (events, how) = self.until(broken);
        let mut steps = vec![head];
        for event in events {
            steps.push(Step::Send(event));
            if !scene.pace.is_zero() {
                steps.push(Step::Sleep(scene.pace));
            }
        }
        match how {
            None | Some(How::Eof) => steps.push(Step::End),
            Some(How::Cut) => steps.push(Step::Fin),
            Some(How::Error(row)) => steps.extend([Step::Send(error(row)), Step::End]),
        }
        steps
    }

    /// The events before the break. Those that stand before the next content come too.
    fn until(self, broken: Option<Break>) -> (Vec<Bytes>, Option<How>) {
        let Some(Break { after, how }) = broken else {
            return (self.0.into_iter().map(|(_, event)| event).collect(), None);
        };
        let mut content = 0;
        let before = self.0.into_iter().take_while(|(kind, _)| {
            let goes_on = content < after;
            content += usize::from(*kind == Kind::Content);
            goes_on
        });
        (before.map(|(_, event)| event).collect(), Some(how))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_break_comes_after_so_many_contents() {
        check(None, "oacbd", false);
        check(Some(0), "", true);
        check(Some(1), "oa", true);
        check(Some(2), "oacb", true);
        check(Some(9), "oacbd", true);

        #[track_caller]
        fn check(after: Option<usize>, expected: &str, breaks: bool) {
            let mut events = Events::default();
            events.other("o");
            events.content("a");
            events.other("c");
            events.content("b");
            events.other("d");
            let (before, how) = events.until(after.map(|after| Break { after, how: How::Eof }));
            let text: Vec<_> = before.iter().map(|event| String::from_utf8_lossy(event)).collect();
            assert_eq!((text.concat().as_str(), how.is_some()), (expected, breaks));
        }
    }
}
