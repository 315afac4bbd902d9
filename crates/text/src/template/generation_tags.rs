//! `{% generation %}` marks what the assistant said, for training; a server only needs its scope.

/// Replaces generation tags by scopes, which print what they hold and keep their variables.
pub(super) fn as_scopes(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(start) = rest.find("{%") {
        let (before, tag) = rest.split_at(start + 2);
        out.push_str(before);
        rest = tag;
        let inner = tag.split("%}").next().unwrap_or_default();
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
        ];
        for (source, expected) in table {
            assert_eq!(as_scopes(source), expected);
        }
    }
}
