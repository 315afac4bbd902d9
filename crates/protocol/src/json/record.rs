/// Declares a request: every member is optional on the wire, null counts as absent, unknown
/// members are ignored. Members after `..` are a group of their own, read from the same object.
/// Members are taken as pydantic takes them, unless `take_exactly:` stands before the record. Those marked `@required`
/// are described so; that they are there is checked by whoever needs them.
macro_rules! record {
    ($(#[$meta:meta])* $visibility:vis struct $($rest:tt)*) => {
        $crate::json::record! { take: $(#[$meta])* $visibility struct $($rest)* }
    };
    (
        $take:ident: $(#[$meta:meta])*
        $visibility:vis struct $name:ident {
            $( $(#[doc = $doc:literal])* $(@$mark:ident)? $member:ident : $type:ty, )*
            $( .. $(#[$group_meta:meta])* $group:ident : $group_type:ty, )*
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
        $visibility struct $name {
            $(
                $(#[doc = $doc])*
                #[serde(skip_serializing_if = "Option::is_none")]
                pub $member: Option<$type>,
            )*
            $(
                $(#[$group_meta])*
                #[serde(flatten)]
                pub $group: $group_type,
            )*
        }

        impl $crate::json::FromFields for $name {
            fn from_fields(
                fields: &mut $crate::json::Fields<'_>,
            ) -> Result<Self, $crate::json::ReadError> {
                Ok(Self {
                    $( $member: fields.$take(stringify!($member))?, )*
                    $( $group: $crate::json::FromFields::from_fields(fields)?, )*
                })
            }

            fn knows(
                name: &str,
                value: &$crate::json::Json,
                within: &str,
                unknown: &mut $crate::json::Unknown,
            ) -> bool {
                $(
                    if name == stringify!($member) {
                        let within = match within {
                            "" => name.to_owned(),
                            _ => format!("{within}.{name}"),
                        };
                        <$type as $crate::json::FromJson>::note_unknown(value, &within, unknown);
                        return true;
                    }
                )*
                false $( || <$group_type as $crate::json::FromFields>::knows(name, value, within, unknown) )*
            }

            fn describe(
                members: &mut serde_json::Map<String, serde_json::Value>,
                required: &mut Vec<&'static str>,
            ) {
                $(
                    let about = concat!($($doc),*).trim();
                    let schema = <$type as $crate::json::FromJson>::schema();
                    let marks: &[&str] = &[$(stringify!($mark))?];
                    let schema = if marks.is_empty() {
                        $crate::json::schema::member(schema, about)
                    } else {
                        required.push(stringify!($member));
                        $crate::json::schema::required_member(schema, about)
                    };
                    members.insert(stringify!($member).to_owned(), schema);
                )*
                $( <$group_type as $crate::json::FromFields>::describe(members, required); )*
            }
        }

        impl $crate::json::FromJson for $name {
            fn one() -> String {
                "an object".to_owned()
            }

            fn many() -> String {
                "objects".to_owned()
            }

            fn fits(json: &$crate::json::Json) -> bool {
                matches!(json, $crate::json::Json::Object(_))
            }

            fn from_json(
                json: $crate::json::Json,
                path: &$crate::json::Path<'_>,
            ) -> Result<Self, $crate::json::ReadError> {
                let mut fields = $crate::json::Fields::new(json, path)?;
                $crate::json::FromFields::from_fields(&mut fields)
            }

            fn note_unknown(
                json: &$crate::json::Json,
                within: &str,
                unknown: &mut $crate::json::Unknown,
            ) {
                unknown.note(json, within, <Self as $crate::json::FromFields>::knows);
            }

            fn schema() -> serde_json::Value {
                let mut members = serde_json::Map::new();
                let mut required = Vec::new();
                <Self as $crate::json::FromFields>::describe(&mut members, &mut required);
                let mut schema = serde_json::json!({"type": "object", "properties": members});
                if !required.is_empty() {
                    schema["required"] = serde_json::json!(required);
                }
                schema
            }
        }
    };
}

pub(crate) use record;
