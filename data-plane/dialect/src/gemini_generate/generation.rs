//! What a generation of models knows: by the beginning of their names.

use serde::Serialize;

use crate::dialect::Unfit;

/// What differs between generations.
#[derive(Debug, Clone, Copy)]
pub(super) struct Generation {
    beginning: &'static str,
    /// Takes JSON Schema; else a subset of OpenAPI's.
    pub(super) json_schema: bool,
    /// Signs its calls and wants them back so, and gives them ids.
    pub(super) signs: bool,
    thinks: Thinks,
}

#[derive(Debug, Clone, Copy)]
enum Thinks {
    Never,
    /// A budget in tokens; the smallest one, and the one that comes nearest to none.
    Budget {
        least: u64,
        off: u64,
    },
    /// A word. The lowest that the model knows, and what it makes of `MEDIUM`.
    Level {
        lowest: &'static str,
        medium: &'static str,
    },
}

/// The first that fits decides. Models named `gemini-` that are not here are newer than those that
/// are; other names are open models, which know the least.
const GENERATIONS: &[Generation] = &[
    first("gemini-1"),
    first("gemini-2.0"),
    second("gemini-2.5-pro", 128, 128),
    second("gemini-2.5-flash-lite", 512, 0),
    second("gemini-2", 1, 0),
    third("gemini-3-pro", "LOW", "HIGH"),
    third("gemini-3.1-pro", "LOW", "MEDIUM"),
    third("gemini-3", "MINIMAL", "MEDIUM"),
    third("gemini-", "LOW", "MEDIUM"),
];

const fn first(beginning: &'static str) -> Generation {
    Generation { beginning, json_schema: false, signs: false, thinks: Thinks::Never }
}

const fn second(beginning: &'static str, least: u64, off: u64) -> Generation {
    let thinks = Thinks::Budget { least, off };
    Generation { beginning, json_schema: true, signs: false, thinks }
}

const fn third(beginning: &'static str, lowest: &'static str, medium: &'static str) -> Generation {
    let thinks = Thinks::Level { lowest, medium };
    Generation { beginning, json_schema: true, signs: true, thinks }
}

/// OpenAI's words for effort, with a budget in tokens and a level for each.
const EFFORTS: &[(&str, u64, Level)] = &[
    ("none", 0, Level::Lowest),
    ("minimal", 512, Level::Lowest),
    ("low", 1024, Level::Low),
    ("medium", 8192, Level::Medium),
    ("high", 24_576, Level::High),
    ("xhigh", 24_576, Level::High),
    ("max", 24_576, Level::High),
];

#[derive(Debug, Clone, Copy)]
enum Level {
    Lowest,
    Low,
    Medium,
    High,
}

/// `thinkingConfig`.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ThinkingConfig {
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_budget: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_level: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    include_thoughts: Option<bool>,
}

impl Generation {
    pub(super) fn of(model: &str) -> Self {
        let known = GENERATIONS.iter().find(|row| model.starts_with(row.beginning));
        known.copied().unwrap_or(first(""))
    }

    /// What an effort is to this generation; `None`: it does not think. `cap` bounds thoughts and
    /// answer together, so that a budget leaves a quarter of it.
    ///
    /// # Errors
    /// When the effort is none of OpenAI's words.
    pub(super) fn thinking(
        self,
        effort: &str,
        cap: Option<u64>,
    ) -> Result<Option<ThinkingConfig>, Unfit> {
        let Some((_, budget, level)) = EFFORTS.iter().find(|(known, ..)| *known == effort) else {
            let what = "must be none, minimal, low, medium, high or xhigh";
            return Err(Unfit::invalid("reasoning_effort", what));
        };
        let include_thoughts = (effort != "none").then_some(true);
        Ok(match self.thinks {
            Thinks::Never => None,
            Thinks::Budget { least, off } => {
                let most = cap.map_or(u64::MAX, |cap| cap / 4 * 3);
                let budget = if *budget == 0 { off } else { (*budget).min(most).max(least) };
                let thinking_budget = Some(budget);
                Some(ThinkingConfig { thinking_budget, include_thoughts, ..Default::default() })
            }
            Thinks::Level { lowest, medium } => {
                let level = match level {
                    Level::Lowest => lowest,
                    Level::Low => "LOW",
                    Level::Medium => medium,
                    Level::High => "HIGH",
                };
                let thinking_level = Some(level);
                Some(ThinkingConfig { thinking_level, include_thoughts, ..Default::default() })
            }
        })
    }
}
