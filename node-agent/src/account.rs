//! Whose token the agent has: its ServiceAccount, to which its Leases belong.

use std::time::Duration;

use k8s_openapi::{
    api::authentication::v1::SelfSubjectReview, apimachinery::pkg::apis::meta::v1::OwnerReference,
};
use kube::{Api, Client, api::PostParams};
use tracing::{info, warn};

use crate::failure::{Failure, Reason, in_time};

/// How often a failure is spoken of, in attempts.
const SAY_EVERY: u32 = 20;

/// The agent's ServiceAccount as the owner of what is to go with it; asked until there is an answer.
///
/// None when the agent is not a ServiceAccount of `namespace`, or the API server does not say who asks: then nobody
/// takes the Leases away.
pub async fn owner(client: &Client, namespace: &str) -> Option<OwnerReference> {
    let api: Api<SelfSubjectReview> = Api::all(client.clone());
    for failures in 1.. {
        match in_time(api.create(&PostParams::default(), &SelfSubjectReview::default())).await {
            Ok(review) => {
                let owner = service_account(&review, namespace);
                if owner.is_none() {
                    info!("the agent is no ServiceAccount of {namespace}: its Leases stay when it goes");
                }
                return owner;
            }
            Err(failure) if is_final(&failure) => {
                warn!(
                    "the API server does not say who the agent is, so its Leases stay when it goes: {failure}"
                );
                return None;
            }
            Err(failure) => {
                if failures % SAY_EVERY == 1 {
                    warn!("cannot ask whose the Leases are to be: {failure}");
                }
                tokio::time::sleep(failure.retry_after(failures).min(Duration::from_secs(5))).await;
            }
        }
    }
    None
}

fn is_final(failure: &Failure) -> bool {
    matches!(failure.reason(), Reason::Forbidden | Reason::NotFound | Reason::Invalid)
}

/// The ServiceAccount of `namespace` that a review names.
fn service_account(review: &SelfSubjectReview, namespace: &str) -> Option<OwnerReference> {
    let user = review.status.as_ref()?.user_info.as_ref()?;
    let name = user.username.as_ref()?.strip_prefix(&format!("system:serviceaccount:{namespace}:"))?;
    Some(OwnerReference {
        api_version: "v1".to_owned(),
        kind: "ServiceAccount".to_owned(),
        name: name.to_owned(),
        uid: user.uid.clone()?,
        ..OwnerReference::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_an_account_of_the_namespace_can_own_what_is_there() {
        let owner = |user: &str| {
            let status = json!({"userInfo": {"username": user, "uid": "uid-7"}});
            let review = serde_json::from_value(json!({"apiVersion": "authentication.k8s.io/v1",
                "kind": "SelfSubjectReview", "metadata": {}, "status": status}));
            service_account(&review.unwrap(), "cairn-system").map(|it| (it.kind, it.name, it.uid))
        };
        let agent = ("ServiceAccount".to_owned(), "agent".to_owned(), "uid-7".to_owned());
        assert_eq!(owner("system:serviceaccount:cairn-system:agent"), Some(agent));
        assert_eq!(owner("system:serviceaccount:elsewhere:agent"), None);
        assert_eq!(owner("kubernetes-admin"), None);
    }
}
