//! The file form: what is accepted, and what each mistake is told.

use sluicegate_model::{
    Kind, Resource, ResourceRef,
    document::{Document, References},
    resource,
    schema::{json_schema, to_json},
};

const GOOD: &str = r#"
providers:
  - name: openai
    dialect: openai-chat
    base_url: https://api.openai.com/v1
    timeouts: { connect_ms: 1000, idle_ms: 5000 }
    keys:
      - { name: main, secret: { env: OPENAI_API_KEY }, weight: 3 }
      - { name: spare, secret: { file: /run/secrets/openai } }
  - { name: local, dialect: openai-chat, base_url: "http://127.0.0.1:8000/v1", keyless: true }
models:
  - name: gpt-4o
    aliases: [best, "gpt-4o-2*"]
    targets:
      - { provider: openai, weight: 9 }
      - { provider: local, model: qwen, priority: 1 }
tenants:
  - name: acme
  - { name: acme/search, parent: acme }
api_keys:
  - { name: search, tenant: acme/search, secret: { value: sk-search }, models: [gpt-4o] }
"#;

#[test]
fn a_good_file_expands_and_parses() {
    let document = Document::parse("gateway.yaml", GOOD, References::Closed).unwrap();
    let names: Vec<_> =
        document.resources.iter().map(|declared| declared.reference.to_string()).collect();
    assert_eq!(
        names,
        [
            "provider/openai",
            "credential/openai/main",
            "credential/openai/spare",
            "provider/local",
            "model/gpt-4o",
            "tenant/acme",
            "tenant/acme/search",
            "api_key/search"
        ]
    );
    for declared in &document.resources {
        Resource::parse(&declared.resource).unwrap();
    }
    let shown = to_json(&resource::redacted(&document.resources[7].resource));
    assert!(!shown.to_string().contains("sk-search"));
}

/// What each mistake is told: place, text and hint.
#[test]
fn mistakes_name_place_fault_and_cure() {
    check("providers:\n  - name: [", "f:3:", "not valid YAML");
    check("providrs: []", "f:1:1: providrs:", "did you mean 'providers'");
    check("providers: x", "f:1:1: providers:", "expected a list");
    check(
        "providers:\n  - name: p\n    dialct: openai-chat\n    base_url: http://u\n",
        "f:3:5: providers[0].dialct: unknown field 'dialct'",
        "did you mean 'dialect'?",
    );
    check(
        "providers:\n  - name: p\n    dialect: openai-caht\n    base_url: http://u\n",
        "f:3:5: providers[0].dialect: unknown value 'openai-caht'",
        "did you mean 'openai-chat'?",
    );
    check(
        "providers:\n  - name: p\n    dialect: openai-chat\n    base_url: ftp://u\n",
        "f:4:5: providers[0].base_url: scheme 'ftp' is not supported",
        "use http or https",
    );
    check(
        "providers:\n  - name: p\n    dialect: openai-chat\n    base_url: http://u/v1/chat/completions/\n",
        "f:4:5: providers[0].base_url: names an endpoint",
        "leave /chat/completions out",
    );
    check(
        "providers:\n  - name: p\n    dialect: openai-chat\n    base_url: http://u\n    timeouts: { idle_ms: soon }\n",
        "f:5:17: providers[0].timeouts.idle_ms: expected a whole number",
        "",
    );
    check(
        "providers:\n  - name: p\n    dialect: openai-chat\n    base_url: http://u\n    health: { path: health }\n",
        "f:5:15: providers[0].health.path: is not a path of the provider's host",
        "begin it with one slash",
    );
    check(
        "models:\n  - name: m\n    targets: [{ provider: nowhere }]\n",
        "f:3:17: models[0].targets[0].provider: provider 'nowhere' does not exist",
        "declare it",
    );
    check(
        "tenants:\n  - name: a\n  - name: a\n",
        "f:3:5: tenants[1]: tenant/a is declared twice",
        "the first is on line 2",
    );
    check(
        "tenants:\n  - { name: a, parent: b }\n  - { name: b, parent: a }\n",
        "f:2:16: tenants[0].parent: the tenant is above itself",
        "break the cycle",
    );
    check(
        "access:\n  - { name: a, deny_models: [m] }\n",
        "f:2:5: access[0]: kind 'access' is not supported yet",
        "",
    );
    check(
        "limits:\n  - { name: l, scope: { tenant: '*' }, dimension: requests, rate: 0/second }\n",
        "limits[0].rate: '0/second' admits nothing",
        "",
    );
    check("api_keys:\n  - { name: k }\n", "api_keys[0]", "sluicegate key create");
    check(
        "credentials:\n  - { name: c, provider: p, secret: { env: A, file: B } }\n",
        "credentials[0].secret.file: 'file' stands beside 'env'",
        "exactly one",
    );
    check(
        "api_keys:\n  - { name: k, secret: { value: sk-1234 } }\n",
        "f:2:26: api_keys[0].secret.value: has fewer than 8 characters",
        "sluicegate key create",
    );
    check(
        "models:\n  - name: \"gpt\\u202e4o\"\n    targets: [{ provider: p }]\n",
        "is not a model name",
        "invisible",
    );
    check("tenants:\n  - name:\n", "tenants[0].name: has no value", "");
    check("tenants:\n  - name: a b\n", "tenants[0].name: 'a b' is not a name", "use 1 to 128");
    check("a: 1\n---\nb: 2\n", "several YAML documents", "");

    #[track_caller]
    fn check(text: &str, message: &str, hint: &str) {
        let faults = Document::parse("f", text, References::Closed).unwrap_err().to_string();
        assert!(faults.contains(message), "{faults}\n  lacks: {message}");
        assert!(faults.contains(hint), "{faults}\n  lacks hint: {hint}");
    }
}

/// Keys belong into credentials, where they are sealed.
#[test]
fn headers_that_carry_keys_are_refused() {
    for header in [
        "api-key",
        "X-Api-Key",
        "x-goog-api-key",
        "cookie",
        "set-cookie",
        "www-authenticate",
        "proxy-authenticate",
        "x-auth-token",
    ] {
        let text = format!(
            "providers:\n  - {{ name: p, dialect: openai-chat, base_url: http://u, headers: {{ {header}: canary }} }}\n"
        );
        let faults = Document::parse("f", &text, References::Open).unwrap_err().to_string();
        assert!(faults.contains("carries a key") && faults.contains("credential"), "{faults}");
        assert!(!faults.contains("canary"), "{faults}");
    }
    let text = "credentials:\n  - { name: c, provider: p, secret: { value: k } }\n";
    Document::parse("f", text, References::Open).unwrap();
}

/// On the small stack of a worker thread: what is too deep must not reach anything that recurses.
#[test]
fn deep_nesting_and_alias_bombs_are_faults() {
    let block: String = (0..2500).map(|level| format!("{}a:\n", " ".repeat(level))).collect();
    let flow = "[".repeat(200) + &"]".repeat(200);
    let compact = "- ".repeat(50_000);
    let mut chain = "a0: &a0 [[[[[[[[[[[[[[[[[[[[x]]]]]]]]]]]]]]]]]]]]\n".to_owned();
    let mut laughs = "a0: &a0 { x: lol }\n".to_owned();
    for level in 1..60 {
        let before = level - 1;
        chain += &format!("a{level}: &a{level} [[[[[[[[[[[[[[[[[[*a{before}]]]]]]]]]]]]]]]]]]\n");
        laughs +=
            &format!("a{level}: &a{level} [{}*a{before}]\n", format!("*a{before}, ").repeat(9));
    }
    for (text, said) in [
        (block, "f:65:65: nests more than 64 levels deep"),
        (flow, "f:1:65: nests more than 64 levels deep"),
        (compact, "f:1:129: nests more than 64 levels deep"),
        (chain, "nests more than 64 levels deep"),
        (laughs, "aliases repeat more than 8 MiB"),
    ] {
        let parse = move || Document::parse("f", &text, References::Open).unwrap_err().to_string();
        let small = std::thread::Builder::new().stack_size(256 << 10);
        let faults = small.spawn(parse).unwrap().join().unwrap();
        assert!(faults.contains(said) && faults.contains("hint: "), "{faults}\n  lacks: {said}");
    }
}

/// Time grows with the size of a file, not with its square. The limit leaves room for a slow
/// machine; a quadratic step would take minutes.
#[test]
fn large_files_take_their_time_only_once() {
    const MODELS: usize = 20_000;
    let head = "providers:\n  - { name: p, dialect: openai-chat, base_url: http://u, keyless: true }\nmodels:\n";
    let text = |name: &dyn Fn(usize) -> usize, provider: &str| {
        let model =
            |n| format!("  - name: m{}\n    targets: [{{ provider: {provider} }}]\n", name(n));
        head.to_owned() + &(0..MODELS).map(model).collect::<String>()
    };
    #[expect(clippy::disallowed_types, reason = "how long it really takes is the question")]
    let timed = |text: &str| {
        let begin = std::time::Instant::now();
        let outcome = Document::parse("f", text, References::Closed);
        assert!(begin.elapsed().as_secs() < 10, "{:?}", begin.elapsed());
        outcome
    };
    assert_eq!(timed(&text(&|n| n, "p")).unwrap().resources.len(), MODELS + 1);
    assert_eq!(timed(&text(&|n| n / 2, "p")).unwrap_err().0.len(), MODELS / 2);
    assert_eq!(timed(&text(&|n| n, "nowhere")).unwrap_err().0.len(), MODELS);
}

#[test]
fn several_mistakes_come_at_once_in_file_order() {
    let text = "providers:\n  - name: p\n    base_url: http://u\n    x: 1\n  - name: q q\n    dialect: openai-chat\n    base_url: nope\nmodels:\n  - name: m\n    targets: []\n";
    let faults = Document::parse("f", text, References::Closed).unwrap_err();
    let lines: Vec<_> = faults.0.iter().map(|fault| fault.line).collect();
    assert_eq!(lines, [4, 5, 7, 10], "{faults}");
}

#[test]
fn secrets_in_wrong_places_are_not_echoed() {
    let text = "providers:\n  - name: p\n    dialect: openai-chat\n    base_url: http://u\n    keys: [{ name: k, secret: sk-canary-1 }]\n";
    let faults = Document::parse("f", text, References::Closed).unwrap_err().to_string();
    assert!(!faults.contains("canary"), "{faults}");
    let text = "credentials:\n  - { name: c, provider: p, secret: { env: \"sk-canary 2\" } }\n";
    let faults = Document::parse("f", text, References::Open).unwrap_err().to_string();
    assert!(faults.contains("secret.env") && !faults.contains("canary"), "{faults}");
}

#[test]
fn the_json_form_reads_back_as_itself() {
    let document = Document::parse("f", GOOD, References::Closed).unwrap();
    for declared in &document.resources {
        let json = to_json(&declared.resource);
        let text = format!("{}: [{json}]", declared.reference.kind.plural());
        let again = Document::parse("f", &text, References::Open).unwrap();
        assert_eq!(again.resources[0].resource, declared.resource, "{json}");
    }
}

#[test]
fn the_schema_names_every_supported_list_and_field() {
    let schema = json_schema();
    let providers = &schema["properties"]["providers"]["items"];
    assert_eq!(providers["properties"]["dialect"]["enum"][0], "openai-chat");
    assert!(
        providers["properties"]["network"]["properties"].get("proxy").is_none(),
        "not supported yet"
    );
    assert!(schema["properties"].get("access").is_none(), "not supported yet");
    assert_eq!(providers["required"], serde_json::json!(["name", "dialect", "base_url"]));
    assert!(providers["properties"]["base_url"]["description"].as_str().unwrap().len() > 10);
}

#[test]
fn faults_found_elsewhere_are_placed_in_the_file() {
    let document = Document::parse("f", GOOD, References::Closed).unwrap();
    let violation = sluicegate_model::Violation::new(
        sluicegate_model::path::Path::parse("secret.env"),
        "variable OPENAI_API_KEY is not set",
    )
    .of(&ResourceRef::new(Kind::Credential, "openai/main"));
    let fault = document.locate(&violation);
    assert_eq!(fault.path.to_string(), "providers[0].keys[0].secret.env");
    assert_eq!((fault.line, fault.column), (8, 33));
}

#[test]
fn c5_key_pools_and_accounts_are_read_and_checked() {
    let text = |pool: &str, account: &str| {
        format!(
            "providers:\n  - name: p\n    dialect: openai-chat\n    base_url: http://u\n    \
             key_pool: {pool}\n    keys:\n      - {{ name: k, secret: {{ env: K }}, account: {account} }}\n"
        )
    };
    let good = text("{ exhausted_ms: 2000, last_resort: soonest }", "acme");
    let document = Document::parse("f", &good, References::Closed).unwrap();
    let parsed: Vec<_> =
        document.resources.iter().map(|one| Resource::parse(&one.resource).unwrap()).collect();
    let [Resource::Provider(provider), Resource::Credential(key)] = parsed.as_slice() else {
        panic!("{parsed:?}");
    };
    assert_eq!(provider.key_pool.exhausted, Some(std::time::Duration::from_secs(2)));
    assert_eq!(provider.key_pool.last_resort, resource::LastResort::Soonest);
    assert_eq!((provider.key_pool.resting, key.account.as_deref()), (None, Some("acme")));
    for (pool, account, part) in [
        ("{ last_resort: sonest }", "acme", "soonest"),
        ("{ resting_ms: 0 }", "acme", "resting_ms"),
        ("{ benched_ms: 5 }", "acme", "benched_ms"),
        ("{}", "\"a b\"", "account"),
    ] {
        let faults = Document::parse("f", &text(pool, account), References::Closed).unwrap_err();
        assert!(faults.to_string().contains(part), "{faults}");
    }
}
