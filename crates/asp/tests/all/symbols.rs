//! Names as escaped symbols, read back by clingo.

use proptest::prelude::*;

use policy::{actor, string};

proptest! {
    /// clingo reads back the name, and nothing else.
    #[test]
    fn names_round_trip(name in r#"[a-z"\\\n\r\t().,%#:\-{}é ]{0,12}|[^\x00]{0,8}"#) {
        let symbol = clingo::parse_term(&string(&name)).unwrap();
        prop_assert_eq!(symbol.string().unwrap(), &name);
    }

    #[test]
    fn actor_ids_round_trip(id in r#"[a"\\\n(),.]{1,5}(/[a"\\\n(),.]{1,5}){0,3}"#) {
        let symbol = clingo::parse_term(&actor(&id)).unwrap();
        let parts: Vec<&str> = match symbol.arguments() {
            Ok(parts) => parts.into_iter().map(|part| part.string().unwrap()).collect(),
            Err(_) => vec![symbol.string().unwrap()],
        };
        prop_assert_eq!(parts.join("/"), id);
    }
}
