//! The syntax of objective levels: a list of criteria or lists of criteria, or `adaptive`.

use std::fmt;

use serde::de::{self, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::Criterion;
use crate::evaluation::objectives::ADAPTIVE;
use crate::file::format::Levels;

impl Serialize for Levels {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        #[serde(untagged)]
        enum Level<'a> {
            One(Criterion),
            Sum(&'a [Criterion]),
        }
        let Self::InOrder(levels) = self else { return serializer.serialize_str(ADAPTIVE) };
        serializer.collect_seq(levels.iter().map(|level| match level.as_slice() {
            [one] => Level::One(*one),
            sum => Level::Sum(sum),
        }))
    }
}

impl<'de> Deserialize<'de> for Levels {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ListOrWord;
        impl<'de> Visitor<'de> for ListOrWord {
            type Value = Levels;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of criteria, or `adaptive`")
            }
            fn visit_str<E: de::Error>(self, word: &str) -> Result<Levels, E> {
                if word == ADAPTIVE {
                    return Ok(Levels::Adaptive);
                }
                Err(E::custom(format!("`{word}` is no order; give a list of criteria, or `adaptive`")))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut given: A) -> Result<Levels, A::Error> {
                let mut levels = Vec::new();
                while let Some(Level(level)) = given.next_element()? {
                    levels.push(level);
                }
                Ok(Levels::InOrder(levels))
            }
        }
        deserializer.deserialize_any(ListOrWord)
    }
}

struct Level(Vec<Criterion>);

impl<'de> Deserialize<'de> for Level {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NameOrList;
        impl<'de> Visitor<'de> for NameOrList {
            type Value = Level;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a criterion, or a list of criteria that are added")
            }
            fn visit_str<E: de::Error>(self, name: &str) -> Result<Level, E> {
                name.parse().map(|criterion| Level(vec![criterion])).map_err(E::custom)
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut names: A) -> Result<Level, A::Error> {
                let mut level = Vec::new();
                while let Some(criterion) = names.next_element()? {
                    level.push(criterion);
                }
                Ok(Level(level))
            }
        }
        deserializer.deserialize_any(NameOrList)
    }
}
