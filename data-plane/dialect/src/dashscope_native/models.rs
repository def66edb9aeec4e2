//! What the name of a model tells of it.

/// Words between the hyphens of a name that say that the model sees or hears.
const MULTIMODAL: [&str; 4] = ["vl", "omni", "audio", "qvq"];
/// From this version on every Qwen sees.
const SEES_FROM: (u32, u32) = (3, 5);
/// Words that say that the model answers in streams only.
const STREAMS_ONLY: [&str; 3] = ["qwq", "qvq", "omni"];

/// Is it served where images and sounds are?
pub(super) fn is_multimodal(model: &str) -> bool {
    words(model).any(|word| MULTIMODAL.contains(&word.as_str()))
        || words(model).next().and_then(|word| version(&word)).is_some_and(|it| it >= SEES_FROM)
}

/// Does it refuse calls that ask for no stream? Of Qwen 3 that is so for the models with open
/// weights, whose names tell their size.
pub(super) fn streams_only(model: &str) -> bool {
    let mut names = words(model);
    let open = names.next().as_deref() == Some("qwen3") && names.next().is_some_and(|it| size(&it));
    open || words(model).any(|word| STREAMS_ONLY.contains(&word.as_str()))
}

fn words(model: &str) -> impl Iterator<Item = String> {
    let name = model.rsplit('/').next().unwrap_or_default();
    name.split(['-', '_', ':']).map(str::to_ascii_lowercase)
}

/// `qwen3.5` is (3, 5).
fn version(word: &str) -> Option<(u32, u32)> {
    let number = word.strip_prefix("qwen")?;
    let (major, minor) = number.split_once('.').unwrap_or((number, "0"));
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// `32b`, `0.6b`.
fn size(word: &str) -> bool {
    word.strip_suffix('b').is_some_and(|number| number.parse::<f64>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell() {
        check("qwen-max", false, false);
        check("qwen3-max", false, false);
        check("qwen3-32b", false, true);
        check("qwen3-0.6b", false, true);
        check("qwen3-235b-a22b", false, true);
        check("qwq-plus", false, true);
        check("qwen-vl-max", true, false);
        check("qwen2.5-vl-72b-instruct", true, false);
        check("Qwen/Qwen3-VL-Plus", true, false);
        check("qwen3-omni-flash", true, true);
        check("qvq-max", true, true);
        check("qwen2-audio-instruct", true, false);
        check("qwen3.5-plus", true, false);
        check("qwen3.10-plus", true, false);
        check("qwen4-max", true, false);
        check("qwen2.5-72b-instruct", false, false);
        check("qwen99999999999-x", false, false);
        check("deepseek-v3", false, false);
        check("", false, false);

        #[track_caller]
        fn check(model: &str, multimodal: bool, streams: bool) {
            assert_eq!(
                (is_multimodal(model), streams_only(model)),
                (multimodal, streams),
                "{model}"
            );
        }
    }
}
