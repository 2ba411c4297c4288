//! Names as escaped symbols: any id becomes one string.

/// A string symbol. clingo has three escapes and accepts every other character as it is.
pub fn string(name: &str) -> String {
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

/// An actor: `a("namespace","application","actor")` if the id has that shape, otherwise one string.
pub fn actor(id: &str) -> String {
    let parts: Vec<&str> = id.split('/').collect();
    match parts.as_slice() {
        [namespace, application, name] => {
            format!("a({},{},{})", string(namespace), string(application), string(name))
        }
        _ => string(id),
    }
}
