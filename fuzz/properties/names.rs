//! Names, and text for people.

use nats_elect_core::name::{BucketName, InstanceId, RoleName};

/// The rules of names once more, in other words than the crate's.
pub fn hold_for(text: &str) {
    let fits = (1..=255).contains(&text.len());
    let word = |more: &[u8]| {
        text.bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || more.contains(&byte))
    };
    let role = fits && word(b"-/_=") && !text.starts_with('_');
    let bucket = fits && word(b"-_");
    assert_eq!(RoleName::new(text).is_ok(), role, "role {text:?}");
    assert_eq!(BucketName::new(text).is_ok(), bucket, "bucket {text:?}");
    match InstanceId::new(text) {
        Ok(id) => {
            assert!(fits && id == text);
            shows_what_it_is(text);
            assert!(!text.contains(char::is_whitespace));
        }
        Err(error) => assert!(error.to_string().len() < 2000, "{error}"),
    }
}

/// No control characters, no line breaks, none that show as nothing or turn the text around: it
/// stands in logs and on dashboards.
pub fn shows_what_it_is(text: &str) {
    for c in text.chars() {
        let hidden = matches!(u32::from(c), 0xad | 0x61c | 0x180e | 0x200b..=0x200f | 0x2028..=0x202e | 0x2060..=0x206f
            | 0xfeff | 0xfff9..=0xfffb | 0xe0000..=0xe007f);
        assert!(!c.is_control() && !hidden, "{text:?} hides {c:?}");
    }
}
