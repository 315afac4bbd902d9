/// Declares a request: every member is optional on the wire, null counts as absent, unknown
/// members are ignored. Members after `..` are a group of their own, read from the same object.
/// Members are taken as pydantic takes them, unless `take_exactly:` stands before the record.
macro_rules! record {
    ($(#[$meta:meta])* $visibility:vis struct $($rest:tt)*) => {
        $crate::json::record! { take: $(#[$meta])* $visibility struct $($rest)* }
    };
    (
        $take:ident: $(#[$meta:meta])*
        $visibility:vis struct $name:ident {
            $( $(#[doc = $doc:literal])* $member:ident : $type:ty, )*
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

            fn describe(members: &mut serde_json::Map<String, serde_json::Value>) {
                $(
                    let about = concat!($($doc),*).trim();
                    let schema = <$type as $crate::json::FromJson>::schema();
                    let schema = $crate::json::schema::member(schema, about);
                    members.insert(stringify!($member).to_owned(), schema);
                )*
                $( <$group_type as $crate::json::FromFields>::describe(members); )*
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

            fn schema() -> serde_json::Value {
                let mut members = serde_json::Map::new();
                <Self as $crate::json::FromFields>::describe(&mut members);
                serde_json::json!({"type": "object", "properties": members})
            }
        }
    };
}

pub(crate) use record;
