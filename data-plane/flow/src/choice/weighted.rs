//! In turns by weight, smoothly.

use super::Candidate;

/// Smooth weighted round robin, as nginx does it: each candidate's credit grows by its share, the
/// largest credit is served and pays for all. Shares follow the weights within a few requests, and a heavy
/// candidate is not served in bursts.
#[derive(Debug, Clone, Default)]
pub struct Weighted {
    credits: Vec<(u64, i64)>,
}

impl Weighted {
    /// The next one's place in `candidates`; `None`: none may be chosen. A candidate that may not be
    /// keeps its credit; one that is no longer named loses it.
    pub fn choose(&mut self, candidates: &[Candidate]) -> Option<usize> {
        if !self.credits.iter().map(|(id, _)| *id).eq(candidates.iter().map(|of| of.id)) {
            self.admit(candidates);
        }
        let mut best: Option<(usize, i64)> = None;
        let mut total = 0_i64;
        for (at, (candidate, (_, credit))) in candidates.iter().zip(&mut self.credits).enumerate() {
            let share = i64::try_from(candidate.share()).unwrap_or(i64::MAX);
            if share > 0 {
                total = total.saturating_add(share);
                *credit = credit.saturating_add(share);
                if best.is_none_or(|(_, most)| *credit > most) {
                    best = Some((at, *credit));
                }
            }
        }
        let (at, _) = best?;
        let (_, credit) = self.credits.get_mut(at)?;
        *credit = credit.saturating_sub(total);
        Some(at)
    }

    fn admit(&mut self, candidates: &[Candidate]) {
        let known =
            |id| self.credits.iter().find(|(of, _)| *of == id).map_or(0, |(_, credit)| *credit);
        self.credits = candidates.iter().map(|of| (of.id, known(of.id))).collect();
    }
}
