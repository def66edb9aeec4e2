//! What `run` serves when nothing is configured: the providers whose keys are in the environment,
//! or the built-in demo.

use std::fmt::Write;

/// A provider that is known by its customary variable. Facts are of the providers' own
/// documentation.
struct Known {
    variable: &'static str,
    name: &'static str,
    dialect: &'static str,
    /// Which server of the dialect; empty: it has but one.
    variant: &'static str,
    base_url: &'static str,
    /// The model that the curl line asks for.
    model: &'static str,
    /// Names that go to this provider as they are.
    patterns: &'static [&'static str],
}

const KNOWN: [Known; 9] = [
    Known {
        variable: "OPENAI_API_KEY",
        name: "openai",
        dialect: "openai-chat",
        variant: "openai",
        base_url: "https://api.openai.com/v1",
        model: "gpt-4o-mini",
        patterns: &["gpt-*", "o1*", "o3*", "o4*", "chatgpt-*", "text-embedding-*"],
    },
    Known {
        variable: "ANTHROPIC_API_KEY",
        name: "anthropic",
        dialect: "anthropic-messages",
        variant: "",
        base_url: "https://api.anthropic.com/v1",
        model: "claude-haiku-4-5",
        patterns: &["claude-*"],
    },
    Known {
        variable: "GEMINI_API_KEY",
        name: "gemini",
        dialect: "gemini-generate",
        variant: "",
        base_url: "https://generativelanguage.googleapis.com/v1beta",
        model: "gemini-2.5-flash",
        patterns: &["gemini-*"],
    },
    Known {
        variable: "DEEPSEEK_API_KEY",
        name: "deepseek",
        dialect: "openai-chat",
        variant: "deepseek",
        base_url: "https://api.deepseek.com/v1",
        model: "deepseek-chat",
        patterns: &["deepseek-*"],
    },
    Known {
        variable: "DASHSCOPE_API_KEY",
        name: "dashscope",
        dialect: "openai-chat",
        variant: "qwen",
        base_url: "https://dashscope.aliyuncs.com/compatible-mode/v1",
        model: "qwen-plus",
        patterns: &["qwen*", "text-embedding-v*"],
    },
    Known {
        variable: "ARK_API_KEY",
        name: "ark",
        dialect: "openai-chat",
        variant: "doubao-ark",
        base_url: "https://ark.cn-beijing.volces.com/api/v3",
        model: "doubao-seed-1-6",
        patterns: &["doubao-*", "ep-*"],
    },
    Known {
        variable: "ZHIPUAI_API_KEY",
        name: "zhipu",
        dialect: "openai-chat",
        variant: "zhipu-glm",
        base_url: "https://open.bigmodel.cn/api/paas/v4",
        model: "glm-4-flash",
        patterns: &["glm-*", "embedding-*"],
    },
    Known {
        variable: "MOONSHOT_API_KEY",
        name: "moonshot",
        dialect: "openai-chat",
        variant: "moonshot",
        base_url: "https://api.moonshot.cn/v1",
        model: "kimi-latest",
        patterns: &["kimi-*", "moonshot-*"],
    },
    Known {
        variable: "MISTRAL_API_KEY",
        name: "mistral",
        dialect: "openai-chat",
        variant: "mistral",
        base_url: "https://api.mistral.ai/v1",
        model: "mistral-small-latest",
        patterns: &["mistral-*", "codestral-*"],
    },
];

/// Name of the demo provider and of its model.
pub(super) const DEMO: &str = "demo";
/// Name of the key that callers are given.
pub(super) const KEY: &str = "quickstart";

/// Names of the providers that a start without configuration makes.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    KNOWN.iter().map(|known| known.name).chain([DEMO])
}

/// A configuration for the first minute.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Quickstart {
    /// In the form of a configuration file. Holds the names of variables, never their values.
    pub(super) yaml: String,
    /// The model of the curl line.
    pub(super) model: String,
    /// What is served, for people.
    pub(super) served: String,
}

/// Serves every provider whose variable `is_set`; with none, a demo at `demo_address`.
pub(super) fn quickstart(is_set: impl Fn(&str) -> bool, demo_address: &str) -> Quickstart {
    let present: Vec<_> = KNOWN.iter().filter(|known| is_set(known.variable)).collect();
    let mut providers = String::from("providers:\n");
    let mut models = String::from("models:\n");
    // Writing into a string cannot fail.
    for known in &present {
        let Known { variable, name, dialect, variant, base_url, model, patterns } = known;
        let variant = match *variant {
            "" => String::new(),
            variant => format!("    variant: {variant}\n"),
        };
        let _infallible = writeln!(
            providers,
            "  - name: {name}\n    dialect: {dialect}\n{variant}    base_url: {base_url}\n    keys:\n      - {{ name: env, secret: {{ env: {variable} }} }}"
        );
        let aliases = patterns.iter().map(|p| format!("\"{p}\"")).collect::<Vec<_>>().join(", ");
        let _infallible = writeln!(
            models,
            "  - name: {model}\n    aliases: [{aliases}]\n    owned_by: {name}\n    targets:\n      - {{ provider: {name} }}"
        );
    }
    if present.is_empty() {
        let _infallible = writeln!(
            providers,
            "  - name: {DEMO}\n    dialect: openai-chat\n    base_url: http://{demo_address}/v1\n    keyless: true"
        );
        let _infallible = writeln!(
            models,
            "  - name: {DEMO}\n    owned_by: {DEMO}\n    targets:\n      - {{ provider: {DEMO} }}"
        );
    }
    let served = match present.as_slice() {
        [] => {
            let variables = KNOWN.map(|known| known.variable).join(", ");
            format!("the built-in demo provider (no provider key found; set one of {variables})")
        }
        present => present.iter().map(|known| known.name).collect::<Vec<_>>().join(", "),
    };
    Quickstart {
        yaml: format!("{providers}{models}tenants:\n  - name: default\n"),
        model: present.first().map_or(DEMO, |known| known.model).to_owned(),
        served,
    }
}

#[cfg(test)]
mod tests {
    use sluicegate_model::document::{Document, References};

    use super::*;

    #[test]
    fn every_choice_is_a_valid_configuration() {
        let everything = quickstart(|_| true, "127.0.0.1:9");
        let document = Document::parse("q", &everything.yaml, References::Closed).unwrap();
        assert_eq!(document.resources.len(), 3 * KNOWN.len() + 1);
        assert_eq!(everything.model, "gpt-4o-mini");

        let demo = quickstart(|_| false, "127.0.0.1:9");
        Document::parse("q", &demo.yaml, References::Closed).unwrap();
        assert_eq!(demo.model, DEMO);
        assert!(demo.served.contains("OPENAI_API_KEY"));

        let one = quickstart(|name| name == "DEEPSEEK_API_KEY", "127.0.0.1:9");
        assert_eq!((one.model.as_str(), one.served.as_str()), ("deepseek-chat", "deepseek"));
    }
}
