//! Prometheus' text format, as far as conditions need it: samples with their labels. Types, help,
//! timestamps and exemplars are passed over. (prometheus.io/docs/instrumenting/exposition_formats)

/// Most samples that are kept of one body.
pub const MAX_SAMPLES: usize = 20_000;
/// Longest line, in bytes; longer ones are passed over.
const MAX_LINE: usize = 16 * 1024;
/// Most labels of a sample; one with more is passed over.
const MAX_LABELS: usize = 64;

/// One value with its labels.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    pub name: String,
    pub labels: Vec<(String, String)>,
    /// Finite.
    pub value: f64,
}

impl Sample {
    /// The value of a label.
    pub fn label(&self, name: &str) -> Option<&str> {
        self.labels.iter().find(|(of, _)| of == name).map(|(_, value)| value.as_str())
    }
}

/// Why a body holds no metrics.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadMetrics {
    #[error("the metrics are not UTF-8")]
    NotUtf8,
    #[error("this is not Prometheus' text format, no line of it is")]
    NoMetrics,
    #[error("more than {MAX_SAMPLES} samples are asked for: select fewer metrics")]
    TooMany,
}

/// Reads the samples whose names are wanted. What is not finite is left out, and lines that cannot be
/// read are passed over, as long as others can.
///
/// # Errors
/// When nothing can be read, or too much is wanted.
pub fn samples(body: &[u8], wanted: impl Fn(&str) -> bool) -> Result<Vec<Sample>, BadMetrics> {
    let text = std::str::from_utf8(body).map_err(|_| BadMetrics::NotUtf8)?;
    let (mut samples, mut good, mut bad) = (Vec::new(), false, false);
    for line in text.lines() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let read = if line.len() > MAX_LINE { None } else { sample(line, &wanted) };
        match read {
            Some(Some(_)) if samples.len() == MAX_SAMPLES => return Err(BadMetrics::TooMany),
            Some(found) => {
                samples.extend(found);
                good = true;
            }
            None => bad = true,
        }
    }
    if bad && !good { Err(BadMetrics::NoMetrics) } else { Ok(samples) }
}

/// `None`: it is no sample. `Some(None)`: it is none that is wanted.
fn sample(line: &str, wanted: &dyn Fn(&str) -> bool) -> Option<Option<Sample>> {
    let inside = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ':');
    let end = line.find(|c| !inside(c))?;
    let (name, rest) = line.split_at_checked(end)?;
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let rest = rest.trim_start();
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(inner) => labels(inner)?,
        None => (Vec::new(), rest),
    };
    // A time may follow, or an exemplar.
    let value = rest.split_whitespace().next()?.parse::<f64>().ok()?;
    let sample = || Sample { name: name.to_owned(), labels, value };
    Some((value.is_finite() && wanted(name)).then(sample))
}

type Labels = Vec<(String, String)>;

/// Labels behind their opening brace, and what follows the closing one.
fn labels(mut rest: &str) -> Option<(Labels, &str)> {
    let mut labels = Vec::new();
    loop {
        rest = rest.trim_start();
        if let Some(after) = rest.strip_prefix('}') {
            return Some((labels, after));
        }
        if labels.len() == MAX_LABELS {
            return None;
        }
        let (name, after) = rest.split_once('=')?;
        let (value, after) = quoted(after.trim_start().strip_prefix('"')?)?;
        labels.push((name.trim().to_owned(), value));
        rest = after.trim_start();
        rest = match rest.strip_prefix(',') {
            Some(after) => after,
            None if rest.starts_with('}') => rest,
            None => return None,
        };
    }
}

/// A value behind its opening quotation mark, and what follows the closing one.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut characters = text.chars();
    loop {
        match characters.next()? {
            '"' => return Some((value, characters.as_str())),
            '\\' => match characters.next()? {
                'n' => value.push('\n'),
                other => value.push(other),
            },
            other => value.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Result<Vec<Sample>, BadMetrics> {
        samples(text.as_bytes(), |_| true)
    }

    #[test]
    fn b4_samples_are_read_with_labels() {
        let text = "# HELP vllm:gpu_cache_usage_perc GPU KV-cache usage.\n\
            # TYPE vllm:gpu_cache_usage_perc gauge\n\
            vllm:gpu_cache_usage_perc{engine=\"0\",model_name=\"a \\\"b\\\" {},\\\\\\n\"} 0.85\n\
            \n  up 1 1395066363000\r\n\
            rpc{quantile=\"0.5\",} 4.7e+03 # {trace_id=\"x\"} 1\n\
            broken{a=b} 1\n\
            nan NaN\ninf{le=\"+Inf\"} +Inf\nempty{} -0.5";
        let found = read(text).unwrap();
        let names: Vec<_> = found.iter().map(|one| (one.name.as_str(), one.value)).collect();
        let expected = [("vllm:gpu_cache_usage_perc", 0.85), ("up", 1.0), ("rpc", 4700.0)];
        assert_eq!(names, [&expected[..], &[("empty", -0.5)]].concat());
        assert_eq!(found[0].label("model_name"), Some("a \"b\" {},\\\n"));
        assert_eq!((found[0].label("engine"), found[1].label("engine")), (Some("0"), None));
        let only = samples(text.as_bytes(), |name| name == "up").unwrap();
        assert_eq!(only.len(), 1);
    }

    #[test]
    fn b4_what_is_no_metrics_says_so() {
        assert_eq!(read("<html>\n<body>no</body>"), Err(BadMetrics::NoMetrics));
        assert_eq!(samples(b"\xff 1", |_| true), Err(BadMetrics::NotUtf8));
        assert_eq!(read(""), Ok(Vec::new()));
        let many = "a 1\n".repeat(MAX_SAMPLES + 1);
        assert_eq!(read(&many), Err(BadMetrics::TooMany));
        assert_eq!(samples(many.as_bytes(), |_| false), Ok(Vec::new()));
        let long = format!("a{{b=\"{}\"}} 1\nb 1", "x".repeat(MAX_LINE));
        assert_eq!(read(&long).unwrap().len(), 1);
        let wide = format!("a{{{}}} 1\nb 1", "b=\"\",".repeat(MAX_LABELS + 1));
        assert_eq!(read(&wide).unwrap().len(), 1);
    }

    proptest! {
        #[test]
        fn b4_any_labels_come_back(
            labels in prop::collection::vec(("[a-z_]{1,5}", "[ -~\n\u{e9}]{0,12}"), 0..5),
            value in -1e9..1e9_f64,
        ) {
            let escaped = |text: &str| {
                text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
            };
            let written: Vec<_> =
                labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
            let found = read(&format!("m{{{}}} {value}\n", written.join(","))).unwrap();
            prop_assert_eq!(&found, &vec![Sample { name: "m".into(), labels, value }]);
        }

        #[test]
        fn b4_no_text_breaks_the_reader(text in "[a-z:{}=\"\\\\, 0-9.#\n\u{e9}]{0,200}") {
            let _read = read(&text);
        }
    }
}
