//! What is known of one job beside its body, note and result; and as bytes.

use super::JobState;

/// Between the parts of a key that is made of several texts. No text has it.
pub(crate) const SEPARATOR: char = '\u{1f}';
/// The layout below.
const VERSION: u8 = 2;
/// Of before there were parties and turns.
const FIRST_VERSION: u8 = 1;

/// One job. Times are the store's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) owner: String,
    pub(crate) party: String,
    /// Empty: none.
    pub(crate) key: String,
    pub(crate) queue: String,
    /// The order of a queue: by turns, and in one turn by the order in which jobs came. A job that comes
    /// back has its old place.
    pub(crate) turn: u64,
    pub(crate) seq: u64,
    pub(crate) state: JobState,
    pub(crate) attempt: u64,
    /// Who has it, or had it until the lease ran out; empty: nobody, or given back.
    pub(crate) node: String,
    pub(crate) call: String,
    /// Waiting: not to be claimed before; 0: it is to be claimed. Running: the end of the lease.
    pub(crate) at_ms: u64,
    pub(crate) created_ms: u64,
    /// When it expires; of one that has ended: when it is forgotten.
    pub(crate) end_ms: u64,
    pub(crate) keep_ms: u64,
    pub(crate) ended_ms: u64,
    /// Its end is to be delivered.
    pub(crate) deliver: bool,
    /// When that is tried next; 0: not.
    pub(crate) deliver_ms: u64,
    pub(crate) tries: u64,
    pub(crate) meta_bytes: u64,
    /// Of the body; of one that has ended, of the result.
    pub(crate) blob_bytes: u64,
}

impl Record {
    /// When something becomes of it by itself.
    pub(crate) fn timer_ms(&self) -> u64 {
        match self.state {
            JobState::Waiting if self.at_ms > 0 => self.at_ms.min(self.end_ms),
            JobState::Running => self.at_ms,
            JobState::Waiting | JobState::Done | JobState::Cancelled | JobState::Expired => {
                self.end_ms
            }
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.meta_bytes.saturating_add(self.blob_bytes)
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.state == JobState::Waiting && self.at_ms == 0
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION, letter(self.state), u8::from(self.deliver)];
        for number in self.numbers() {
            bytes.extend(number.to_le_bytes());
        }
        let texts = [&self.owner, &self.party, &self.key, &self.queue, &self.node, &self.call];
        for text in texts {
            bytes.extend(text.as_bytes());
            bytes.push(SEPARATOR as u8);
        }
        bytes
    }

    /// `None` if these are not the bytes of a record.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let ([version, state, deliver], rest) = bytes.split_first_chunk()?;
        let is_first = match *version {
            VERSION => false,
            FIRST_VERSION => true,
            _ => return None,
        };
        let numbers = if is_first { NUMBERS - 1 } else { NUMBERS };
        let (numbers, texts) = rest.split_at_checked(8 * numbers)?;
        let (numbers, _) = numbers.as_chunks::<8>();
        let mut numbers = numbers.iter().map(|number| u64::from_le_bytes(*number));
        let mut number = || numbers.next();
        let mut texts = std::str::from_utf8(texts).ok()?.split(SEPARATOR).map(str::to_owned);
        let mut text = || texts.next();
        let mut record = Self {
            state: state_of(*state)?,
            deliver: *deliver == 1,
            turn: if is_first { 0 } else { number()? },
            seq: number()?,
            attempt: number()?,
            at_ms: number()?,
            created_ms: number()?,
            end_ms: number()?,
            keep_ms: number()?,
            ended_ms: number()?,
            deliver_ms: number()?,
            tries: number()?,
            meta_bytes: number()?,
            blob_bytes: number()?,
            owner: text()?,
            party: if is_first { String::new() } else { text()? },
            key: text()?,
            queue: text()?,
            node: text()?,
            call: text()?,
        };
        if is_first {
            record.party.clone_from(&record.owner);
        }
        // Each text ends with a separator, so that after the last one nothing is left.
        (texts.next()?.is_empty() && texts.next().is_none()).then_some(record)
    }

    fn numbers(&self) -> [u64; NUMBERS] {
        [
            self.turn,
            self.seq,
            self.attempt,
            self.at_ms,
            self.created_ms,
            self.end_ms,
            self.keep_ms,
            self.ended_ms,
            self.deliver_ms,
            self.tries,
            self.meta_bytes,
            self.blob_bytes,
        ]
    }
}

const NUMBERS: usize = 12;

/// How a state is written, the same in every store.
fn letter(state: JobState) -> u8 {
    match state {
        JobState::Waiting => b'w',
        JobState::Running => b'r',
        JobState::Done => b'd',
        JobState::Cancelled => b'c',
        JobState::Expired => b'x',
    }
}

pub(crate) fn state_of(letter: u8) -> Option<JobState> {
    match letter {
        b'w' => Some(JobState::Waiting),
        b'r' => Some(JobState::Running),
        b'd' => Some(JobState::Done),
        b'c' => Some(JobState::Cancelled),
        b'x' => Some(JobState::Expired),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_comes_back_and_a_cut_one_does_not() {
        for state in b"wrdcx" {
            let record = Record {
                owner: "t/k".into(),
                party: "t".into(),
                key: String::new(),
                queue: "p/m\u{e9}".into(),
                turn: 12,
                seq: 1,
                state: state_of(*state).unwrap(),
                attempt: 2,
                node: "n".into(),
                call: "c".into(),
                at_ms: 3,
                created_ms: 4,
                end_ms: u64::MAX,
                keep_ms: 6,
                ended_ms: 7,
                deliver: true,
                deliver_ms: 8,
                tries: 9,
                meta_bytes: 10,
                blob_bytes: 11,
            };
            let bytes = record.encode();
            assert_eq!(Record::decode(&bytes), Some(record));
            for length in 0..bytes.len() {
                assert_eq!(Record::decode(&bytes[..length]), None, "{length}");
            }
        }
        assert_eq!(Record::decode(b""), None);
        let first = [
            &[FIRST_VERSION, b'w', 1][..],
            &[7_u64, 2, 0, 0, 0, 0, 0, 0, 0, 3, 4].map(u64::to_le_bytes).concat(),
            b"o\x1fk\x1fq\x1fn\x1fc\x1f",
        ];
        let record = Record::decode(&first.concat()).unwrap();
        assert_eq!((record.turn, record.seq, record.attempt), (0, 7, 2));
        assert_eq!((&*record.owner, &*record.party, &*record.queue), ("o", "o", "q"));
        assert_eq!((record.meta_bytes, record.blob_bytes), (3, 4));
    }
}
