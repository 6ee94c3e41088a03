//! Tests of `podgate::core::annotations`.

use podgate::core::annotations::*;

fn all(bytes: &[u8]) -> Result<Annotations, Torn> {
    read(bytes, |_| true)
}

#[test]
fn incomplete_line_makes_the_file_torn() {
    let torn = "a|a=|a=\"|a=\"1|a=\"1\\\"|=\"1\"|a=1|a=\"1\" |a=\"1\"b\"|a=\"1\"\n\nb=\"2\"|a b=\"1\"|\0=\"1\"";
    for torn in torn.split('|') {
        assert!(all(torn.as_bytes()).is_err(), "{torn:?}");
    }
    assert_eq!(all(b"a=\"1\"\nb"), Err(Torn { line: 2, what: "no '='" }));
}

#[test]
fn undecodable_value_does_not_hide_others() {
    let read = all(b"a=\"\\xff\"\nb=\"\\q\"\nc=\"\\u+041\"\nd=\"ok\"").unwrap();
    assert_eq!(read, Annotations::from([("d".to_owned(), "ok".to_owned())]));
}

#[test]
fn long_list_loses_its_last_items() {
    let (fits, name) = ("a".repeat(VALUE_MAX), "b".repeat(63));
    for (list, expected) in [(fits.clone(), fits.clone()), (format!("{fits},{name}"), fits)] {
        let mut capped = list;
        drop_items_over_max(&mut capped);
        assert_eq!(capped, expected);
    }
    let mut list = vec![name.as_str(); 100].join(",");
    drop_items_over_max(&mut list);
    assert_eq!(list, vec![name.as_str(); 64].join(","));
}
