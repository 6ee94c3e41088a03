//! Values without unused capacity: a List of thousands of objects has a million small lists and objects.

use serde::de::{Deserialize, Deserializer, Error, IntoDeserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use std::fmt;

/// Value of a document, which takes two thirds of the memory that serde_json's own reading needs.
pub(super) struct Exact(pub(super) Value);

struct ExactVisitor;

impl<'de> Deserialize<'de> for Exact {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Exact, D::Error> {
        from.deserialize_any(ExactVisitor).map(Exact)
    }
}

macro_rules! scalars {
    ($($visit:ident $type:ty,)*) => {
        $(fn $visit<E: Error>(self, value: $type) -> Result<Value, E> {
            Value::deserialize(value.into_deserializer())
        })*
    };
}

impl<'de> Visitor<'de> for ExactVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    scalars! { visit_bool bool, visit_i64 i64, visit_u64 u64, visit_f64 f64, visit_str &str, visit_string String, }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(Exact(item)) = from.next_element()? {
            items.push(item);
        }
        items.shrink_to_fit();
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Value, A::Error> {
        let mut fields = Vec::new();
        while let Some((key, Exact(field))) = from.next_entry()? {
            fields.push((key, field));
        }
        let mut map = Map::with_capacity(fields.len());
        map.extend(fields);
        Ok(Value::Object(map))
    }
}
