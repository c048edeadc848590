//! Tokenizers: tokens equal Hugging Face's, from each supported set of files.

use super::recorded::{folder, notes};
use oxidax_models::gpt2::Gpt2Tokenizer;

/// Returns a folder with copies of some of the recorded files.
fn with(names: &[&str]) -> tempfile::TempDir {
    let copies = tempfile::tempdir().unwrap();
    for name in names {
        std::fs::copy(folder().join(name), copies.path().join(name)).unwrap();
    }
    copies
}

#[test]
fn tokens_match_hugging_face_from_either_kind_of_files() {
    for names in [&["tokenizer.json"][..], &["vocab.json", "merges.txt"]] {
        let tokenizer = Gpt2Tokenizer::load(with(names).path()).unwrap();
        assert_eq!(tokenizer.len(), 512);
        for sentence in notes()["sentences"].as_array().unwrap() {
            let text = sentence["text"].as_str().unwrap();
            let ids: Vec<u32> = serde_json::from_value(sentence["ids"].clone()).unwrap();
            assert_eq!(tokenizer.encode(text).unwrap(), ids, "{text:?} by {names:?}");
            assert_eq!(tokenizer.decode(&ids).unwrap(), sentence["decoded"].as_str().unwrap());
        }
    }
}

#[test]
fn saved_tokenizers_are_opened_again() {
    let text = "Zwölf Boxkämpfer\njagen";
    for tokenizer in [Gpt2Tokenizer::load(folder()).unwrap(), Gpt2Tokenizer::characters(text)] {
        let saved = tempfile::tempdir().unwrap();
        tokenizer.save(saved.path()).unwrap();
        let opened = Gpt2Tokenizer::load(saved.path()).unwrap();
        let tokens = tokenizer.encode(text).unwrap();
        assert_eq!((opened.len(), opened.encode(text).unwrap()), (tokenizer.len(), tokens.clone()));
        assert_eq!(opened.decode(&tokens).unwrap(), text);
    }
}

#[test]
fn characters_are_numbered_in_order() {
    let tokenizer = Gpt2Tokenizer::characters("banana\n");
    assert_eq!(tokenizer.len(), 4);
    assert_eq!(tokenizer.encode("nab\n").unwrap(), [3, 1, 2, 0]);
    let unknown = tokenizer.encode("bx").unwrap_err().to_string();
    assert_eq!(unknown, "error[data]: tokenizer: 'x' is not among the 4 characters");
    let unknown = tokenizer.decode(&[4]).unwrap_err().to_string();
    assert_eq!(unknown, "error[data]: tokenizer: token 4 of 4 characters");
    assert!(Gpt2Tokenizer::characters("").is_empty() && !tokenizer.is_empty());
}

#[test]
fn a_folder_without_a_tokenizer_is_refused() {
    let part = with(&["vocab.json"]);
    let error = Gpt2Tokenizer::load(part.path()).err().unwrap().to_string();
    assert!(
        error.ends_with(
            "has no tokenizer: tokenizer.json, vocab.json with merges.txt, or characters.json"
        ),
        "{error}"
    );
    std::fs::write(part.path().join("merges.txt"), "#version: 0.2\nno-such pair-of-tokens\n")
        .unwrap();
    let error = Gpt2Tokenizer::load(part.path()).err().unwrap().to_string();
    assert!(error.contains("vocab.json: "), "{error}");
    std::fs::write(part.path().join("merges.txt"), "#version: 0.2\na b c\n").unwrap();
    let error = Gpt2Tokenizer::load(part.path()).err().unwrap().to_string();
    assert!(error.contains("merges.txt: line 2 is not a pair"), "{error}");
    std::fs::write(part.path().join("tokenizer.json"), "{").unwrap();
    let error = Gpt2Tokenizer::load(part.path()).err().unwrap().to_string();
    assert!(error.contains("tokenizer.json: "), "{error}");
}
