#!/bin/sh
# glint_bench end to end on tiny shapes: the CSV's columns and rows, the stopwatch, wrong options. No timing is judged.
set -u
program=$1
fake=$2
work=$(mktemp -d "${TEST_TMPDIR:-/tmp}/glint_bench.XXXXXX")
trap 'rm -rf "$work"' EXIT
passed=0
failed=0
check() {
    name=$1
    shift
    if "$@"; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "FAILED: $name"; cat "$work/log"; fi
}

# In every spec of this repository: float32, head_dim 64, causal.
small="--dtype f32 --mask causal --head-dim 64 --heads 2 --reps 2 --least-ms 1"
"$program" $small --seqlen 16,8x24 --threads 1,2 --heads-kv 0,1 --csv "$work/a.csv" >"$work/log" 2>&1
check "it runs" test $? = 0
check "the header is the one that the peers write" test "$(head -1 "$work/a.csv")" = \
    impl,variant,pass,dtype,head_dim,mask,seqlen_q,seqlen_k,batch,heads_q,heads_kv,threads,ms,tflops
check "2 threads x 2 passes x 2 shapes x 2 groups" test "$(wc -l <"$work/a.csv")" = 17
check "every row has 14 fields, a positive time and a name" \
    awk -F, 'NR > 1 && (NF != 14 || $13 <= 0 || $14 < 0 || $2 !~ /__/) { bad = 1 } END { exit bad }' "$work/a.csv"
check "no row twice" test -z "$(tail -n +2 "$work/a.csv" | cut -d, -f1-12 | sort | uniq -d)"
check "a peak for both threads" test "$(grep -c '^multiply-add peak' "$work/log")" = 2
"$program" $small --seqlen 16 --pass fwd --threads 1 --all >"$work/log" 2>&1
check "--all runs" grep -q 'fwd_f32_d64_causal[a-z_]*__' "$work/log"
"$program" $small --seqlen 40 --threads 2 --batch 3 --ragged >"$work/log" 2>&1
check "--ragged has a line for each cell" test "$(sed -n '/longest/,$p' "$work/log" | awk '$3 == 67 && $4 == 13 && $6 > 0 { n++ } END { print n }')" = 2
"$program" $small --seqlen 8x40 --threads 1 --pass fwd --batch 3 --ragged --page-rows 16 >"$work/log" 2>&1
check "--ragged has a line for few queries of each sequence, and for them in pages" \
    test "$(sed -n '/longest/,$p' "$work/log" | awk '$3 == 8 && $4 == 8 && $6 > 0 { n++ } END { print n }')" = 2
"$program" $small --seqlen 40 --threads 1 --page-rows 16,64 >"$work/log" 2>&1
check "--page-rows has a line for each size of pages, of forward alone" \
    test "$(sed -n '/page rows/,$p' "$work/log" | awk '$1 ~ /^fwd_/ && ($6 == 16 || $6 == 64) && $7 > 0 { n++ } END { print n }')" = 2

"$program" $small --seqlen 300 --threads 1 --window 50,400 >"$work/log" 2>&1
if grep -q 'left out: .*add "band" to masks' "$work/log"; then
    check "a library without windows says so" test "$(sed -n '/window  *threads/,$p' "$work/log" | wc -l)" = 1
else
    check "--window has a line for each window and pass, and counts fewer tiles for the narrow one" test "$(sed -n '/window  *threads/,$p' "$work/log" |
        awk '($5 == 50 && $8 < 0.9 || $5 == 400 && $8 == 1) && $7 > 0 { n++ } END { print n }')" = 4
fi

"$program" --decode --dtype f32 --head-dim 64 --heads 4:2,3 --seqlen 40,300 --queries 2 --reps 2 --least-ms 1 --csv "$work/d.csv" >"$work/log" 2>&1
check "--decode runs" test $? = 0
check "2 threads x 2 groups x 2 lengths" test "$(wc -l <"$work/d.csv")" = 9
check "3 columns more" test "$(head -1 "$work/d.csv")" = "$(head -1 "$work/a.csv"),layout,gbytes_s,of_read"
check "each has 2 queries, positive speeds, the layout of a cache by heads" \
    awk -F, 'NR > 1 && (NF != 17 || $3 != "fwd" || $7 != 2 || $13 <= 0 || $15 != "bhsd" || $16 <= 0 || $17 <= 0) { bad = 1 } END { exit bad }' "$work/d.csv"
check "the groups that were asked for" test "$(tail -n +2 "$work/d.csv" | cut -d, -f10,11 | sort -u | tr '\n' ' ')" = "3,3 4,2 "
check "a table with the share of a read loop" test "$(grep -c '%$' "$work/log")" = 8
"$program" --decode --dtype f32 --head-dim 64 --heads 2:1 --seqlen 40 --threads 1 --queries 1-3,20 --reps 2 --least-ms 1 >"$work/log" 2>&1
check "--queries with a range has a line a number, and each but the last its time beside the next" test "$(sed -n '/of next/,$p' "$work/log" |
    awk '$2 == "2:1" && $7 > 0 { n++; if (NF == 9 && $9 > 0) beside++; all = all " " $6 } END { print n, beside all }')" = "4 3 1 2 3 20"
"$program" --decode --dtype f32 --head-dim 64 --heads 2 --seqlen 40 --threads 1 --layout bshd --reps 1 --least-ms 1 --csv "$work/d.csv" >"$work/log" 2>&1
check "--layout bshd" grep -q '^glint,.*,causal,1,40,1,2,2,1,[^,]*,[^,]*,bshd,' "$work/d.csv"
printf '%s\n' 'fwd f32 64 causal 1 40 1 4 2 1 bhsd' 'fwd f32 64 causal 1 40 1 4 2 1 shbd' | "$program" --serve --least-ms 1 >"$work/log" 2>&1
check "the stopwatch takes a layout" grep -q '^[a-z]*_f32_d64_[a-z_]*__[a-z0-9_]* [0-9.]*$' "$work/log"
check "and refuses what is none" test "$(sed -n '2s/:.*//p' "$work/log")" = "error expected"
printf '%s\n' 'fwd f32 64 causal 1 40 1 4 2 1 bhsd same' 'fwd f32 64 causal 1 40 1 4 2 1 bhsd i9' | "$program" --serve --least-ms 1 >"$work/log" 2>&1
check "it takes what K and V are stored as" test "$(grep -c '^[a-z]*_f32_d64_[a-z_]*__[a-z0-9_]* [0-9.]*$' "$work/log")" = 1
check "and refuses what is not stored" test "$(sed -n '2s/:.*//p' "$work/log")" = "error expected"

printf '%s\n' 'fwd f32 64 causal 16 16 1 2 2 1' 'bwd f32 64 causal 8 24 1 2 1 2' 'hello' 'fwd f32 63 none 8 8 1 1 1 1' 'fwd f32 64 causal 8 8 1 2 2 1' |
    "$program" --serve --least-ms 1 >"$work/log" 2>&1
check "the stopwatch answers every line" test "$(wc -l <"$work/log")" = 5
check "three with a variant and a time" test "$(grep -c '^[a-z]*_f32_[a-z0-9_]* [0-9.]*$' "$work/log")" = 3
check "two with an error" test "$(grep -c '^error ' "$work/log")" = 2

for wrong in "--pass sideways" "--dtype f33" "--seqlen -1" "--seqlen 1x" "--head-dim 64x64" "--threads 0" "--isa pentium" "--reps 0" "--bogus" "--csv" \
    "--heads 4x2" "--heads 4:0" "--layout shbd" "--queries 2" "--decode --pass bwd" "--decode --seqlen 1x16" "--decode --queries 0" "--policies" "--tokens 1,2"; do
    # shellcheck disable=SC2086
    "$program" $wrong >"$work/log" 2>&1
    check "$wrong is refused" test $? = 2
done
"$program" $small --seqlen 16 --head-dim 63 >"$work/log" 2>&1
check "nothing to measure is a failure" test $? = 1
"$program" --decode --seqlen 16,32 --head-dim 63 --dtype f32 >"$work/log" 2>&1
check "what cells are left out for is said once" test "$(grep -c 'left out: GLINT_BAD_HEAD_DIM' "$work/log")" = 1
# On a GPU that pretends, with a table of its own.
"$fake" --gpu --dtype f16 --head-dim 64 --seqlen 32,16x48 --heads 2 --heads-kv 1,2 --threads 1,2 --reps 2 --least-ms 1 --csv "$work/gpu.csv" \
    >"$work/log" 2>&1
check "it runs on a GPU" test $? = 0
check "2 passes x 2 masks x 2 shapes x 2 groups, once" test "$(wc -l <"$work/gpu.csv")" = 17
check "GPU variants, no threads, positive times" \
    awk -F, 'NR > 1 && (NF != 14 || $12 != 0 || $13 <= 0 || $2 !~ /__sm80_/) { bad = 1 } END { exit bad }' "$work/gpu.csv"
check "the GPU is named" grep -q 'a pretended GPU 0, sm_90' "$work/log"
"$fake" --gpu --policies --dtype f16 --head-dim 64 --mask causal --tokens 640 --seqlen 320,2048 --heads 8:2,8:1 --reps 2 --least-ms 1 --csv "$work/gpu.csv" \
    >"$work/log" 2>&1
check "--policies runs" test $? = 0
check "it plans each cell by the rules and by other numbers, with as many sequences as --tokens says" awk -F, 'NR == 1 { bad = $16 != "policy" }
    NR > 1 { ruled += !$15; tuned += $15; bad += $9 != ($7 == 320 ? 2 : 1); seen[$2, $7, $10, $11, $16]++ }
    END { for (i in seen) bad += seen[i] > 1; exit bad || ruled != 8 || tuned < 16 }' "$work/gpu.csv"
check "backward cells tell parts and section" test "$(awk -F, '$3 == "bwd" && $16 ~ /^[1-8] parts section [1-9]/ { n++ } $3 == "bwd" { m++ } END { print (n == m && m > 8) }' "$work/gpu.csv")" = 1
check "and a line says how many would change" grep -q '^in [0-9]* of [0-9]* cells other numbers are ahead' "$work/log"
printf '%s\n' 'fwd f16 64 causal 16 16 1 2 2 1' | "$fake" --gpu --serve --least-ms 1 >"$work/log" 2>&1
check "the stopwatch runs on a GPU" grep -q '^fwd_f16_d64_causal__sm80_[a-z0-9_]* [0-9.]*$' "$work/log"

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -ge 42 ]
