//! Cutting streams everywhere.

use crate::play::Transcript;

/// Longest stream that is cut before every single byte in turn.
const SHORT: usize = 8 * 1024;

/// Reads a transcript's stream uncut, byte by byte, in two at every place, and `random` times anyhow.
pub(crate) fn check(transcript: &Transcript, random: usize) {
    let length = transcript.stream.as_ref().unwrap().len();
    let whole = transcript.course(&[]);
    let check = |cuts: &[usize]| {
        let seen = transcript.course(cuts);
        assert_eq!(seen, whole, "{}: cut at {cuts:?}", transcript.name);
    };
    check(&(1..length).collect::<Vec<_>>());
    if length <= SHORT {
        for cut in 1..length {
            check(&[cut]);
        }
    }
    let mut rng = fastrand::Rng::with_seed(7);
    for _ in 0..random {
        let most = rng.usize(1..=length.clamp(1, 40));
        let mut cuts: Vec<_> = (0..most).map(|_| rng.usize(0..=length)).collect();
        cuts.sort_unstable();
        check(&cuts);
    }
}
