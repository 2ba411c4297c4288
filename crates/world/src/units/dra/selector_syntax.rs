//! Syntax of CEL in Kubernetes that the parser leaves out.

use kube_cel::cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, ListExpr, LiteralValue, operators,
};
use kube_cel::cel::parser::Parser;
use kube_cel::cel::{IdedExpr, ParseErrors};

/// Parses an expression with `cel.bind` and with optional members, such as `.?name` and `[?'name']`.
pub(crate) fn parse(text: &str) -> Result<IdedExpr, ParseErrors> {
    let mut expression = Parser::new().enable_optional_syntax(true).parse(text)?;
    expand(&mut expression);
    Ok(expression)
}

fn expand(of: &mut IdedExpr) {
    match &mut of.expr {
        Expr::Call(call) => {
            call.target.as_deref_mut().into_iter().chain(&mut call.args).for_each(expand);
            if call.func_name == operators::OPT_SELECT {
                // The evaluator fails for `.?name` if the member does not exist, and not for `[?'name']`.
                operators::OPT_INDEX.clone_into(&mut call.func_name);
            }
            if let Some(bound) = bound(call) {
                of.expr = bound;
            }
        }
        Expr::Comprehension(of) => {
            let of = &mut **of;
            for part in
                [&mut of.iter_range, &mut of.accu_init, &mut of.loop_cond, &mut of.loop_step, &mut of.result]
            {
                expand(part);
            }
        }
        Expr::List(list) => list.elements.iter_mut().for_each(expand),
        Expr::Map(map) => {
            for entry in &mut map.entries {
                if let EntryExpr::MapEntry(entry) = &mut entry.expr {
                    expand(&mut entry.key);
                    expand(&mut entry.value);
                }
            }
        }
        Expr::Select(select) => expand(&mut select.operand),
        Expr::Ident(_) | Expr::Literal(_) | Expr::Struct(_) | Expr::Unspecified => {}
    }
}

/// `cel.bind(name, value, body)`: a loop over nothing, whose result sees the initial value.
fn bound(call: &mut CallExpr) -> Option<Expr> {
    let is_macro = matches!(&call.target.as_deref()?.expr, Expr::Ident(name) if name == "cel");
    let [name, value, body] = &mut call.args[..] else { return None };
    let Expr::Ident(name) = &name.expr else { return None };
    if !is_macro || call.func_name != "bind" {
        return None;
    }
    let of = |expr: Expr| IdedExpr { id: 0, expr };
    Some(Expr::Comprehension(Box::new(ComprehensionExpr {
        iter_range: of(Expr::List(ListExpr::default())),
        iter_var: "#unused".to_owned(),
        iter_var2: None,
        accu_var: name.clone(),
        accu_init: std::mem::take(value),
        loop_cond: of(Expr::Literal(LiteralValue::Boolean(false.into()))),
        loop_step: of(Expr::Ident(name.clone())),
        result: std::mem::take(body),
    })))
}

#[cfg(test)]
mod tests {
    use crate::units::dra::published::published_pool;
    use crate::units::dra::selectors::{DeviceSelector, functions};

    #[test]
    fn optional_members_and_bound_names_are_evaluated() {
        let slice = "{metadata: {name: s}, spec: {driver: d.example.com, nodeName: n, pool: {name: n, generation: 1, \
            resourceSliceCount: 1}, devices: [{name: a, attributes: {model: {string: A100}, index: {int: 3}}, \
            capacity: {memory: {value: 40Gi}}}]}}";
        let pool = published_pool(&[serde_yaml::from_str(slice).unwrap()]);
        let own = "device.attributes['d.example.com']";
        for (text, expected) in [
            (format!("{own}.?model.orValue('') == 'A100'"), true),
            (format!("{own}.?none.orValue('none') == 'none'"), true),
            (format!("{own}[?'none'].hasValue()"), false),
            ("device.attributes[?'d.example.com'].?model.hasValue()".to_owned(), true),
            ("device.attributes[?'e.example.com'].?model.hasValue()".to_owned(), false),
            (format!("cel.bind(own, {own}, own.model == 'A100' && own.index == 3)"), true),
            (format!("cel.bind(a, {own}, cel.bind(b, a.index, [b, 4].exists(c, c == a.index)))"), true),
            (format!("['A100'].exists(m, cel.bind(model, {own}.model, m == model))"), true),
            (
                "cel.bind(cap, device.capacity['d.example.com'], has(cap.memory) && cap.memory.compareTo(quantity('16Gi')) >= 0)"
                    .to_owned(),
                true,
            ),
            (format!("dyn({own}.index) == 3"), true),
        ] {
            let selector = DeviceSelector::compile(&text).unwrap();
            assert_eq!(selector.selects(&pool.devices[0], &functions()), Ok(expected), "{text}");
        }
        let unknown = DeviceSelector::compile("type(device.driver) == string").unwrap();
        let problem = unknown.selects(&pool.devices[0], &functions()).unwrap_err();
        assert!(
            problem.starts_with("`type(device.driver) == string` cannot be evaluated for device "),
            "{problem}"
        );
    }
}
