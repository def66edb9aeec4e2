//! A model of a model server: everything in flight goes at full speed up to so many tokens, and beyond
//! that more slowly, all alike.

/// One request in flight.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) id: usize,
    tokens: u64,
    left_ms: f64,
}

#[derive(Debug)]
pub(crate) struct Server {
    full_speed_tokens: u64,
    most_requests: usize,
    jobs: Vec<Job>,
}

impl Server {
    pub(crate) fn slows_beyond(full_speed_tokens: u64) -> Self {
        Self { full_speed_tokens, most_requests: usize::MAX, jobs: Vec::new() }
    }

    /// Answers 503 when so many are in flight.
    pub(crate) fn refuses_beyond(self, most_requests: usize) -> Self {
        Self { most_requests, ..self }
    }

    /// False: it refuses.
    pub(crate) fn begin(&mut self, id: usize, tokens: u64, takes_ms: u64) -> bool {
        let takes = self.jobs.len() < self.most_requests;
        if takes {
            self.jobs.push(Job { id, tokens, left_ms: takes_ms as f64 });
        }
        takes
    }

    /// One millisecond passes; what is done leaves.
    pub(crate) fn step(&mut self) -> Vec<Job> {
        let tokens: u64 = self.jobs.iter().map(|job| job.tokens).sum();
        let speed = (self.full_speed_tokens as f64 / tokens.max(1) as f64).min(1.0);
        self.jobs.iter_mut().for_each(|job| job.left_ms -= speed);
        self.jobs.extract_if(.., |job| job.left_ms <= 0.0).collect()
    }
}
