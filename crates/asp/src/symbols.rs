//! Names as escaped symbols: whatever an id holds, in a program it is one string.

/// A string symbol. clingo knows three escapes and takes every other character as it is.
pub(crate) fn string(name: &str) -> String {
    let mut text = String::with_capacity(name.len() + 2);
    text.push('"');
    for character in name.chars() {
        match character {
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '"' => text.push_str("\\\""),
            other => text.push(other),
        }
    }
    text.push('"');
    text
}

/// An actor: `a("namespace","application","actor")` where the id has that shape, else one string.
pub(crate) fn actor(id: &str) -> String {
    let parts: Vec<&str> = id.split('/').collect();
    match parts.as_slice() {
        [namespace, application, name] => {
            format!("a({},{},{})", string(namespace), string(application), string(name))
        }
        _ => string(id),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// What clingo reads back is the name, and nothing but the name.
        #[test]
        fn a_name_is_read_back_as_itself(name in r#"[a-z"\\\n\r\t().,%#:\-{}é ]{0,12}|[^\x00]{0,8}"#) {
            let symbol = clingo::parse_term(&string(&name)).unwrap();
            prop_assert_eq!(symbol.string().unwrap(), &name);
        }

        #[test]
        fn an_actor_is_read_back_as_its_id(id in r#"[a"\\\n(),.]{1,5}(/[a"\\\n(),.]{1,5}){0,3}"#) {
            let symbol = clingo::parse_term(&actor(&id)).unwrap();
            let parts: Vec<&str> = match symbol.arguments() {
                Ok(parts) => parts.into_iter().map(|part| part.string().unwrap()).collect(),
                Err(_) => vec![symbol.string().unwrap()],
            };
            prop_assert_eq!(parts.join("/"), id);
        }
    }
}
