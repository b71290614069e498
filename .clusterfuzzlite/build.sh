#!/bin/bash -eu
# Builds the targets of tests/fuzz for ClusterFuzzLite: one program for all of them, without a Python around it, and for
# each target a script that names it, with its seeds. SRC, OUT and PyInstaller are those of the image.
python3 -m pip install --quiet '.[cluster]'
pyinstaller --distpath "$OUT" --workpath /tmp/fuzz --specpath /tmp/fuzz --onefile --name tallygate_fuzz.pkg \
  --paths . --collect-data tallygate --collect-submodules tests.fuzz tests/fuzz/one.py

for target in $(python3 -m tests.fuzz --list); do
  # By the environment, since libFuzzer begins itself again without the arguments that it does not know.
  cat > "$OUT/fuzz_$target" << SCRIPT
#!/bin/sh
# LLVMFuzzerTestOneInput: by this word a fuzzer is found
here=\$(dirname "\$0")
FUZZ_TARGET=$target ASAN_OPTIONS=\$ASAN_OPTIONS:symbolize=1:external_symbolizer_path=\$here/llvm-symbolizer:detect_leaks=0 \\
  exec "\$here/tallygate_fuzz.pkg" "\$@"
SCRIPT
  chmod +x "$OUT/fuzz_$target"
  python3 -m tests.fuzz --seeds "/tmp/fuzz/seeds_$target" "$target"
  python3 -m zipfile -c "$OUT/fuzz_${target}_seed_corpus.zip" "/tmp/fuzz/seeds_$target"/*
done
