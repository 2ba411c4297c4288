//! Strict deserialization: refuses a list in place of an object, and duplicate keys, both of which serde accepts.
//!
//! serde also reads a struct from a list, with fields in the order of declaration, and of two equal keys of a map
//! it keeps the last.

use std::collections::BTreeSet;
use std::fmt;

use serde::de::value::StrDeserializer;
use serde::de::{self, DeserializeSeed, Deserializer, EnumAccess, MapAccess, SeqAccess, Visitor};

/// A deserializer that refuses both at any depth; around it, `serde_path_to_error` records the path. Nothing is buffered except the
/// keys of the maps being read. Duplicate fields of a struct are refused by serde itself.
#[derive(Debug)]
pub struct Strict<D>(pub D);

/// Deserializes any value, strictly.
macro_rules! strict_inside {
    ($($name:ident($($argument:ident: $type:ty),*);)+) => {
        $(fn $name<V: Visitor<'de>>(self, $($argument: $type,)* visitor: V) -> Result<V::Value, D::Error> {
            self.0.$name($($argument,)* Inside(visitor))
        })+
    };
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Strict<D> {
    type Error = D::Error;

    strict_inside! {
        deserialize_any();
        deserialize_bool();
        deserialize_i8();
        deserialize_i16();
        deserialize_i32();
        deserialize_i64();
        deserialize_i128();
        deserialize_u8();
        deserialize_u16();
        deserialize_u32();
        deserialize_u64();
        deserialize_u128();
        deserialize_f32();
        deserialize_f64();
        deserialize_char();
        deserialize_str();
        deserialize_string();
        deserialize_bytes();
        deserialize_byte_buf();
        deserialize_option();
        deserialize_unit();
        deserialize_unit_struct(name: &'static str);
        deserialize_newtype_struct(name: &'static str);
        deserialize_seq();
        deserialize_tuple(len: usize);
        deserialize_tuple_struct(name: &'static str, len: usize);
        deserialize_map();
        deserialize_enum(name: &'static str, variants: &'static [&'static str]);
        deserialize_identifier();
        deserialize_ignored_any();
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_struct(name, fields, Object { visitor, fields })
    }
}

/// Wraps a visitor, an access or a seed, so that nested values are read strictly.
struct Inside<T>(T);

/// Values without nested values.
macro_rules! as_they_are {
    ($($name:ident($type:ty);)+) => {
        $(fn $name<E: de::Error>(self, value: $type) -> Result<V::Value, E> {
            self.0.$name(value)
        })+
    };
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Inside<V> {
    type Value = V::Value;

    as_they_are! {
        visit_bool(bool);
        visit_i64(i64);
        visit_i128(i128);
        visit_u64(u64);
        visit_u128(u128);
        visit_f64(f64);
        visit_str(&str);
        visit_borrowed_str(&'de str);
        visit_string(String);
        visit_bytes(&[u8]);
    }

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.expecting(f)
    }

    fn visit_none<E: de::Error>(self) -> Result<V::Value, E> {
        self.0.visit_none()
    }

    fn visit_unit<E: de::Error>(self) -> Result<V::Value, E> {
        self.0.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, reader: D) -> Result<V::Value, D::Error> {
        self.0.visit_some(Strict(reader))
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, reader: D) -> Result<V::Value, D::Error> {
        self.0.visit_newtype_struct(Strict(reader))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<V::Value, A::Error> {
        self.0.visit_seq(Inside(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, entries: A) -> Result<V::Value, A::Error> {
        self.0.visit_map(Entries { entries, met: Some(BTreeSet::new()) })
    }

    /// Unchanged: no enum of the format contains an object.
    fn visit_enum<A: EnumAccess<'de>>(self, variant: A) -> Result<V::Value, A::Error> {
        self.0.visit_enum(variant)
    }
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for Inside<A> {
    type Error = A::Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, A::Error> {
        self.0.next_element_seed(Inside(seed))
    }

    fn size_hint(&self) -> Option<usize> {
        self.0.size_hint()
    }
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Inside<S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<S::Value, D::Error> {
        self.0.deserialize(Strict(reader))
    }
}

/// The visitor of a struct: fields have names, and no order.
struct Object<V> {
    visitor: V,
    fields: &'static [&'static str],
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Object<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, _: A) -> Result<V::Value, A::Error> {
        let fields = self.fields.join(", ");
        Err(de::Error::custom(format!("is a list; give an object, with its fields by name: {fields}")))
    }

    fn visit_map<A: MapAccess<'de>>(self, entries: A) -> Result<V::Value, A::Error> {
        self.visitor.visit_map(Entries { entries, met: None })
    }
}

/// Access to the entries of an object.
struct Entries<A> {
    entries: A,
    /// The keys so far; `None` for a struct.
    met: Option<BTreeSet<String>>,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Entries<A> {
    type Error = A::Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, A::Error> {
        let Some(met) = &mut self.met else { return self.entries.next_key_seed(seed) };
        let Some(key) = self.entries.next_key::<String>()? else { return Ok(None) };
        // It is passed on before it is refused, so that the path is recorded.
        let read = seed.deserialize(StrDeserializer::<A::Error>::new(&key))?;
        match met.replace(key) {
            Some(key) => Err(de::Error::custom(format!("`{key}` is given twice; keep one"))),
            None => Ok(Some(read)),
        }
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        self.entries.next_value_seed(Inside(seed))
    }

    fn size_hint(&self) -> Option<usize> {
        self.entries.size_hint()
    }
}
