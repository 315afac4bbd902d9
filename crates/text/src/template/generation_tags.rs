//! `{% generation %}` marks what the assistant said, for training; a server only needs its scope.

/// Replaces generation tags by scopes, which print what they hold and keep their variables.
pub(super) fn as_scopes(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    // Where the next tag ends, as bytes from the end; looked for once, however many tags begin before it.
    let mut end = usize::MAX;
    while let Some(start) = rest.find("{%") {
        let (before, tag) = rest.split_at(start + 2);
        out.push_str(before);
        rest = tag;
        if end > tag.len() {
            let Some(length) = tag.find("%}") else { break };
            end = tag.len() - length;
        }
        let inner = &tag[..tag.len() - end];
        let name = inner.trim_matches(['-', '+']).trim();
        let scope = match name {
            "generation" => "with",
            "endgeneration" => "endwith",
            _ => continue,
        };
        out.push_str(&inner.replace(name, scope));
        rest = &tag[inner.len()..];
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::as_scopes;

    #[test]
    fn only_generation_tags_change_and_their_whitespace_control_stays() {
        let table = [
            (
                "{% generation %}a{% endgeneration %}",
                "{% with %}a{% endwith %}",
            ),
            (
                "{%- generation -%}a{%+endgeneration%}",
                "{%- with -%}a{%+endwith%}",
            ),
            (
                "{% if generation %}{{ generation }}{% endif %}",
                "{% if generation %}{{ generation }}{% endif %}",
            ),
            ("{#{%#}{% generation %}", "{#{%#}{% with %}"),
            ("{%}{%", "{%}{%"),
            ("no tags", "no tags"),
            ("{%{%{% generation %}", "{%{%{% with %}"),
            ("{% generation", "{% generation"),
        ];
        for (source, expected) in table {
            assert_eq!(as_scopes(source), expected);
        }
    }

    #[test]
    fn tags_without_an_end_are_passed_over_once() {
        // One by one, to the end each, they would take minutes.
        for source in ["{%".repeat(500_000), "{%".repeat(500_000) + "%}"] {
            assert_eq!(as_scopes(&source), source);
        }
    }
}
