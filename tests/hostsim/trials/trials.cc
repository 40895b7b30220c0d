/* The judge on trial: kernels that are wrong, each of which must be reported, as what it is and where it is, whatever
 * the seed; and kernels that are right, which must run to their end with the right answer. */
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <string>

#include "tests/hostsim/abandoned.h"
#include "tests/hostsim/driver.h"
#include "tests/hostsim/findings.h"
#include "tests/hostsim/image.h"
#include "tests/hostsim/trials/right.cu"
#include "tests/hostsim/trials/wrong.cu"

namespace
{

constexpr uint64_t SEEDS = 24;
const char WRONG_FILE[] = "tests/hostsim/trials/wrong.cu";

struct Trial {
    const char *name;
    sim::Entry kernel;
    uint32_t blocks, threads, shared_bytes;
    const char *kinds; /* any of these; null: it is right */
};

#define WRONG_TRIAL(name, blocks, threads, shared_bytes, kinds)              \
    {                                                                        \
#name, SIM_ENTRY(wrong_##name), blocks, threads, shared_bytes, kinds \
    }
#define RIGHT_TRIAL(name, blocks, threads, shared_bytes)                       \
    {                                                                          \
#name, SIM_ENTRY(right_##name), blocks, threads, shared_bytes, nullptr \
    }

const Trial TRIALS[] = {
    WRONG_TRIAL(neighbour_in_the_warp, 1, 32, 1024, "race uninitialised"),
    WRONG_TRIAL(shuffle_orders_nothing, 1, 32, 1024, "race"),
    WRONG_TRIAL(warp_sync_is_of_one_warp, 1, 64, 1024, "race uninitialised"),
    WRONG_TRIAL(written_again_while_read, 1, 64, 1024, "race"),
    WRONG_TRIAL(written_by_one_of_two_readers, 1, 32, 1024, "race"),
    WRONG_TRIAL(written_by_the_first_reader, 1, 32, 1024, "race"),
    WRONG_TRIAL(two_writers, 1, 32, 1024, "race"),
    WRONG_TRIAL(wide_store_over_a_narrow_one, 1, 64, 1024, "race"),
    WRONG_TRIAL(ldmatrix_before_the_row_is_there, 1, 64, 1024, "race"),
    WRONG_TRIAL(barrier_of_others, 1, 128, 1024, "race uninitialised"),
    WRONG_TRIAL(arrived_and_not_waited, 1, 64, 1024, "race uninitialised"),
    WRONG_TRIAL(written_after_the_arrival, 1, 64, 1024, "race uninitialised"),
    WRONG_TRIAL(copy_read_without_wait, 1, 32, 1024, "pending"),
    WRONG_TRIAL(copy_in_no_group, 1, 32, 1024, "pending"),
    WRONG_TRIAL(newest_group_read, 1, 32, 1024, "pending"),
    WRONG_TRIAL(newest_group_is_not_the_empty_one, 1, 32, 1024, "pending"),
    WRONG_TRIAL(second_of_twelve_groups, 1, 32, 1024, "pending"),
    WRONG_TRIAL(copy_of_another_thread, 1, 32, 1024, "race pending uninitialised"),
    WRONG_TRIAL(wait_of_another_thread, 1, 64, 1024, "pending"),
    WRONG_TRIAL(stored_under_a_copy, 1, 32, 1024, "pending"),
    WRONG_TRIAL(copied_over_what_is_read, 1, 64, 1024, "race pending"),
    WRONG_TRIAL(source_changed_under_a_copy, 1, 32, 1024, "race pending"),
    WRONG_TRIAL(source_changed_by_who_was_told, 1, 64, 1024, "race pending"),
    WRONG_TRIAL(copy_left_behind, 1, 32, 1024, "bounds"),
    WRONG_TRIAL(bulk_loaded_without_fence, 1, 64, 1024, "race"),
    WRONG_TRIAL(fence_before_the_store, 1, 64, 1024, "race"),
    WRONG_TRIAL(fence_of_shared_memory_only, 1, 64, 1024, "race"),
    WRONG_TRIAL(fence_of_the_loading_thread_only, 1, 64, 1024, "race"),
    WRONG_TRIAL(fence_after_the_barrier, 1, 64, 1024, "race"),
    WRONG_TRIAL(fence_and_no_barrier, 1, 64, 1024, "race pending uninitialised"),
    WRONG_TRIAL(own_store_bulk_loaded_without_fence, 1, 32, 1024, "race"),
    WRONG_TRIAL(bulk_loaded_from_another_block_without_fence, 2, 32, 1024, "race"),
    WRONG_TRIAL(fence_of_one_of_two_addends, 2, 32, 1024, "race"),
    WRONG_TRIAL(bulk_stored_over_without_fence, 1, 64, 1024, "race"),
    WRONG_TRIAL(bulk_added_to_without_fence, 1, 64, 1024, "race"),
    WRONG_TRIAL(bulk_store_read_back_early, 1, 32, 1024, "pending"),
    WRONG_TRIAL(bulk_store_waited_for_by_another_thread, 1, 64, 1024, "pending"),
    WRONG_TRIAL(bulk_store_waited_for_after_the_barrier, 1, 64, 1024, "race"),
    WRONG_TRIAL(bulk_stores_to_one_place, 1, 32, 1024, "pending"),
    WRONG_TRIAL(source_of_a_bulk_load_changed, 1, 64, 1024, "pending"),
    WRONG_TRIAL(added_to_through_both_proxies, 1, 64, 1024, "pending race"),
    WRONG_TRIAL(shared_memory_is_not_zero, 1, 32, 1024, "uninitialised"),
    WRONG_TRIAL(three_quarters_written, 1, 32, 1024, "uninitialised"),
    WRONG_TRIAL(what_another_block_left, 2, 32, 1024, "uninitialised"),
    WRONG_TRIAL(output_read, 1, 32, 0, "uninitialised"),
    WRONG_TRIAL(added_to_nothing, 1, 32, 0, "uninitialised"),
    WRONG_TRIAL(one_word_past_the_end, 1, 32, 0, "bounds"),
    WRONG_TRIAL(one_word_before_the_begin, 1, 32, 0, "bounds"),
    WRONG_TRIAL(copy_from_past_the_end, 1, 32, 1024, "bounds alignment"),
    WRONG_TRIAL(past_shared_memory, 1, 32, 504, "bounds"),
    WRONG_TRIAL(wrapped_shared_address, 1, 32, 1024, "bounds"),
    WRONG_TRIAL(misaligned_vector, 1, 32, 1024, "alignment"),
    WRONG_TRIAL(misaligned_row, 1, 32, 1024, "alignment"),
    WRONG_TRIAL(misaligned_source, 1, 32, 1024, "alignment"),
    WRONG_TRIAL(misaligned_global, 1, 32, 1024, "alignment"),
    WRONG_TRIAL(half_of_a_warp_at_a_barrier, 1, 64, 0, "divergence deadlock misuse"),
    WRONG_TRIAL(halves_of_warps_that_add_up, 1, 128, 0, "divergence deadlock misuse"),
    WRONG_TRIAL(a_warp_that_never_comes, 1, 96, 0, "deadlock"),
    WRONG_TRIAL(another_barrier, 1, 64, 0, "deadlock"),
    WRONG_TRIAL(another_count, 1, 96, 0, "misuse deadlock divergence"),
    WRONG_TRIAL(count_of_part_of_a_warp, 1, 64, 0, "misuse"),
    WRONG_TRIAL(sixteenth_barrier, 1, 64, 0, "misuse"),
    WRONG_TRIAL(vote_of_some_lanes, 1, 128, 0, "divergence deadlock misuse"),
    WRONG_TRIAL(phase_that_is_not_waited_for, 1, 64, 1024, "race uninitialised"),
    WRONG_TRIAL(written_after_the_phase, 1, 64, 1024, "race uninitialised"),
    WRONG_TRIAL(phase_of_the_other_parity, 1, 64, 1024, "race uninitialised deadlock"),
    WRONG_TRIAL(phase_of_the_first_arrival, 1, 64, 1024, "race uninitialised deadlock misuse"),
    WRONG_TRIAL(phase_that_never_ends, 1, 64, 1024, "deadlock"),
    WRONG_TRIAL(phase_before_all_know_of_it, 1, 64, 1024, "race uninitialised misuse"),
    WRONG_TRIAL(shuffle_without_all_lanes, 1, 32, 0, "divergence"),
    WRONG_TRIAL(product_without_all_lanes, 1, 32, 0, "divergence"),
    WRONG_TRIAL(lanes_at_two_shuffles, 1, 32, 0, "divergence"),
    WRONG_TRIAL(two_kinds_of_barrier, 1, 64, 0, "divergence deadlock misuse"),
    WRONG_TRIAL(relaxed_flag, 2, 32, 0, "race"),
    WRONG_TRIAL(plain_flag, 2, 32, 0, "race"),
    WRONG_TRIAL(flag_before_the_data, 2, 32, 0, "race uninitialised"),
    WRONG_TRIAL(others_of_the_block_have_not_written, 2, 64, 0, "race uninitialised"),
    WRONG_TRIAL(waits_for_a_later_block, 64, 32, 0, "deadlock"),
    WRONG_TRIAL(dependent_launch_reads_at_once, 1, 64, 0, "race"),
    WRONG_TRIAL(dependent_launch_writes_at_once, 1, 64, 0, "race"),
    WRONG_TRIAL(dependent_launch_of_which_half_waits, 1, 64, 0, "race"),
    WRONG_TRIAL(dependent_launch_copies_at_once, 1, 64, 1024, "race"),
    WRONG_TRIAL(blocks_write_the_same, 2, 32, 0, "race"),
    WRONG_TRIAL(sum_read_while_others_add, 2, 32, 0, "race"),
    WRONG_TRIAL(for_ever, 1, 32, 0, "deadlock"),
    RIGHT_TRIAL(neighbour_after_warp_sync, 1, 64, 1024),
    RIGHT_TRIAL(words_side_by_side, 1, 64, 1024),
    RIGHT_TRIAL(through_a_third_warp, 1, 96, 1024),
    RIGHT_TRIAL(barrier_again_and_again, 1, 64, 1024),
    RIGHT_TRIAL(phases_there_and_back, 1, 64, 1024),
    RIGHT_TRIAL(votes_of_pairs_of_warps, 1, 128, 1024),
    RIGHT_TRIAL(warps_that_have_ended, 1, 64, 1024),
    RIGHT_TRIAL(own_copy, 1, 64, 1024),
    RIGHT_TRIAL(copies_of_others, 1, 64, 1024),
    RIGHT_TRIAL(older_groups, 1, 64, 1024),
    RIGHT_TRIAL(oldest_of_twelve_groups, 1, 64, 1024),
    RIGHT_TRIAL(dependent_launch, 1, 64, 1024),
    RIGHT_TRIAL(empty_group_after_a_copy, 1, 64, 1024),
    RIGHT_TRIAL(nothing_is_read_outside, 1, 64, 1024),
    RIGHT_TRIAL(lanes_apart_and_together_again, 1, 64, 1024),
    RIGHT_TRIAL(one_lane_decides, 1, 64, 1024),
    RIGHT_TRIAL(released_by_one_acquired_by_one, 2, 64, 1024),
    RIGHT_TRIAL(relaxed_and_a_fence, 2, 64, 1024),
    RIGHT_TRIAL(turns, 3, 64, 1024),
    RIGHT_TRIAL(everybody_adds, 3, 64, 1024),
    RIGHT_TRIAL(fenced_and_bulk_loaded, 1, 64, 1024),
    RIGHT_TRIAL(own_store_fenced_and_bulk_loaded, 1, 64, 1024),
    RIGHT_TRIAL(fenced_and_bulk_loaded_by_another_block, 2, 64, 1024),
    RIGHT_TRIAL(to_and_fro_between_the_proxies, 1, 64, 1024),
    RIGHT_TRIAL(bulk_stored_and_bulk_loaded, 1, 64, 1024),
    RIGHT_TRIAL(everybody_adds_in_bulk, 3, 64, 1024),
};

/* The lines of each wrong kernel that end in HERE. */
std::map<std::string, std::vector<int>> marked_lines()
{
    std::map<std::string, std::vector<int>> lines;
    std::ifstream file(WRONG_FILE);
    std::string text, name;

    for (int line = 1; std::getline(file, text); ++line) {
        if (text.compare(0, 6, "WRONG(") == 0)
            name = text.substr(6, text.find(')') - 6);
        if (text.find("/* HERE */") != std::string::npos)
            lines[name].push_back(line);
    }
    return lines;
}

bool names(const char *kinds, const char *kind)
{
    const std::string all = std::string(" ") + kinds + " ";
    return all.find(std::string(" ") + kind + " ") != std::string::npos;
}

int failures;

/* Says it once for each kernel. */
void fail(const Trial &trial, uint64_t seed, const std::string &what)
{
    static const Trial *last;

    ++failures;
    if (last != &trial)
        std::printf("%s, seed %llu: %s\n", trial.name, (unsigned long long)seed, what.c_str());
    last = &trial;
}

/* A wrong kernel's first finding. */
void judge_finding(const Trial &trial, uint64_t seed, const std::vector<int> &lines)
{
    if (sim::findings().empty()) {
        fail(trial, seed, std::string("nothing was reported; it should be: ") + trial.kinds);
        return;
    }
    const sim::Finding &finding = sim::findings()[0];
    bool here = false;
    for (int line : lines)
        here |= line == finding.site.line && std::strstr(finding.site.file, WRONG_FILE) != nullptr;
    if (!names(trial.kinds, sim::name_of(finding.kind)))
        fail(trial, seed, std::string("should be ") + trial.kinds + ", and was reported as: " + finding.text);
    else if (!here)
        fail(trial, seed, "another line is at fault than that of: " + finding.text);
}

void judge_answer(const Trial &trial, uint64_t seed, const uint32_t *out)
{
    if (!sim::findings().empty()) {
        fail(trial, seed, "it is right, and was reported: " + sim::findings()[0].text);
        return;
    }
    std::vector<uint32_t> answer(trial.blocks * trial.threads);
    sim_get(answer.data(), out, answer.size() * sizeof answer[0]);
    for (uint32_t t = 0; t < answer.size(); ++t)
        if (answer[t] != t + 1) {
            fail(trial, seed, "out[" + std::to_string(t) + "] is " + std::to_string(answer[t]));
            return;
        }
}

void run(const Trial &trial, uint64_t seed, const std::vector<int> &lines)
{
    constexpr size_t BYTES = TRIAL_WORDS * sizeof(uint32_t);
    uint32_t words[TRIAL_WORDS];
    trial_params params = {(uint32_t *)sim_allocate(BYTES), (uint32_t *)sim_allocate(BYTES), (uint32_t *)sim_allocate(BYTES)};

    for (uint32_t i = 0; i < TRIAL_WORDS; ++i)
        words[i] = i;
    sim_put(params.in, words, BYTES);
    std::memset(words, 0, BYTES);
    sim_put(params.flags, words, BYTES);
    sim_clear();
    sim_seed(seed);
    sim::run(sim::Launch{trial.kernel.call, &params, trial.blocks, trial.threads, trial.shared_bytes, trial.kernel.name, 1,
                         std::strncmp(trial.name, "dependent_", 10) == 0});
    if (trial.kinds != nullptr)
        judge_finding(trial, seed, lines);
    else
        judge_answer(trial, seed, params.out);
    sim_release(params.in);
    sim_release(params.out);
    sim_release(params.flags);
}

} // namespace

int main(int argc, char **argv)
{
    const std::map<std::string, std::vector<int>> lines = marked_lines();
    int ran = 0;

    sim::set_step_limit(1000000);
    for (const Trial &trial : TRIALS) {
        if (argc > 1 && std::strcmp(argv[1], trial.name) != 0)
            continue;
        const auto marked = lines.find(trial.name);
        if (trial.kinds != nullptr && marked == lines.end()) {
            fail(trial, 0, std::string("no line of it is marked in ") + WRONG_FILE);
            continue;
        }
        for (uint64_t seed = 1; seed <= SEEDS; ++seed)
            run(trial, seed, trial.kinds != nullptr ? marked->second : std::vector<int>());
        ++ran;
    }
    std::printf("%d kernels on trial, %d failures\n", ran, failures);
    return ran > 0 && failures == 0 ? 0 : 1;
}
