//! The same target for the same beginning of a prompt, as its cache knows it; unless it has too much.

use super::{Candidate, mix};

/// How much of a prompt names it: system prompts differ within it, turns of one conversation do not.
pub const HEAD_BYTES: usize = 2_048;

/// Names a prompt by its first [`HEAD_BYTES`].
pub fn prefix_of(prompt: &[u8]) -> u64 {
    let head = prompt.get(..HEAD_BYTES).unwrap_or(prompt);
    let hash = blake3::hash(head);
    let first = hash.as_bytes().first_chunk().copied().unwrap_or_default();
    u64::from_le_bytes(first)
}

/// Weighted rendezvous hashing (Thaler and Ravishankar, "Using name-based mappings to increase hit rates",
/// IEEE/ACM Transactions on Networking 6, 1998), with bounded loads (Mirrokni, Thorup and Zadimoghaddam,
/// "Consistent hashing with bounded loads", 2016): all data planes send a prompt to the same target, one
/// that comes or goes moves only its own share of the prompts, and a target that has more than `bound`
/// times its share of the tokens in flight is passed over.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prefix {
    /// How many times its share a target may have. Less than 1 counts as 1.
    pub bound: f64,
    /// Tokens in flight that any target may have, whatever its share: with little to do there is no need
    /// to leave a warm cache.
    pub free_tokens: u64,
}

impl Default for Prefix {
    fn default() -> Self {
        Self { bound: 1.25, free_tokens: 16_384 }
    }
}

impl Prefix {
    /// The place of the target for prompts of this name; `None`: none may be chosen.
    pub fn choose(&self, candidates: &[Candidate], prefix: u64) -> Option<usize> {
        let shares: u64 = candidates.iter().map(Candidate::share).sum();
        let open = || candidates.iter().enumerate().filter(|(_, of)| of.share() > 0);
        let busy: f64 = open().map(|(_, of)| of.busy_tokens as f64).sum();
        // NaN becomes 1.
        let per_share = self.bound.max(1.0) * busy / shares as f64;
        let fits = |of: &Candidate| {
            let most = (per_share * of.share() as f64).max(self.free_tokens as f64);
            of.busy_tokens as f64 <= most
        };
        let best = |only_fitting: bool| {
            let all = open().filter(|(_, of)| !only_fitting || fits(of));
            let scored = all.map(|(at, of)| (at, score(of, prefix)));
            scored.max_by(|(_, one), (_, other)| one.total_cmp(other)).map(|(at, _)| at)
        };
        // One is at or below its share always, but for rounding.
        best(true).or_else(|| best(false))
    }
}

/// Which candidate has the highest is as random as a draw by weight, and the same each time.
fn score(candidate: &Candidate, prefix: u64) -> f64 {
    let hash = mix(mix(candidate.id) ^ prefix);
    // Evenly in (0, 1): 53 bits and a half.
    let even = ((hash >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
    candidate.share() as f64 / -even.ln()
}
