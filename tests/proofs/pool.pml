/* The thread pool of hosts that have none (lib/pool.c): a caller with a few jobs one after another, and the workers that
 * help, sleep in between and end when the pool is closed. A ticket has the job's generation and its next index. In every
 * order of events each index of each job runs once, with the body of that job and before parallel_for returns; as many
 * bodies as there are threads run at a time; and nobody sleeps for ever.
 * FAULTS: OPEN_FIELDS COUNT_EARLY NO_GENERATION TORN_CLAIM EARLY_LOOK LOOK_BEFORE DEAF_SIGNAL DEAF_STOP NO_LOOP
 *
 * A body waits until all of its job have begun, so a worker that misses a wake-up is a deadlock. Whoever spins may give
 * up at any time. What a caller stores without order may be seen by others ahead of what it stored before. */
#define WORKERS 2
#define THREADS 3 /* the workers, and the caller */
#define JOBS 2
#define CLOSED 99

byte generation, next; /* the ticket */
byte count, body, done, sleepers;
bool caller_sleeps, stop;
bool locked;          /* pool->sleeping */
bool parked[THREADS]; /* waits at its condition; the caller is the last one */

byte size[JOBS + 1], begun[JOBS + 1], runs[(JOBS + 1) * THREADS];

inline lock() { atomic { !locked -> locked = 1 } }
inline unlock() { locked = 0 }
inline wait(me) { atomic { locked = 0; parked[me] = 1 } !parked[me]; lock() }
inline broadcast_work() { atomic { parked[0] = 0; parked[1] = 0 } }

inline work_on(mine)
{
    do
    ::
        atomic { its = generation; index = next } /* @ lib/pool.c: uint64_t ticket = atomic_load_explicit(&pool->ticket, memory_order_acquire); */
        most = count; /* @ lib/pool.c: const uint32_t index = (uint32_t)ticket, count = atomic_load_explicit(&pool->count, memory_order_acquire); */
        job = body;   /* @ lib/pool.c: void (*body)(void *, uint32_t) = atomic_load_explicit(&pool->body, memory_order_relaxed); | void *argument = atomic_load_explicit(&pool->argument, memory_order_relaxed); */
        if            /* @ lib/pool.c: if (generation_of(ticket) != generation || index >= count) */
#ifndef NO_GENERATION
        :: its != mine -> break
#endif
        :: index >= most -> break
        :: else
        fi;
#ifdef TORN_CLAIM
        won = its == generation && index == next;
        if
        :: won -> next = index + 1
        :: else
        fi;
#else
        atomic { /* @ lib/pool.c: if (!atomic_compare_exchange_weak_explicit(&pool->ticket, &ticket, ticket + 1, memory_order_acq_rel, memory_order_relaxed)) */
#ifdef NO_GENERATION
            won = index == next;
#else
            won = its == generation && index == next;
#endif
            if
            :: won -> next++
            :: else
            fi
        }
#endif
        if
        :: won ->
            atomic { /* @ lib/pool.c: body(argument, index); */
                assert(index < size[job]);
                runs[job * THREADS + index]++;
                assert(runs[job * THREADS + index] == 1);
                begun[job]++
            }
            begun[job] == size[job];
#ifdef EARLY_LOOK
            asleep = caller_sleeps;
#endif
            atomic { done++; won = done == most } /* @ lib/pool.c: if (atomic_fetch_add_explicit(&pool->done, 1, memory_order_seq_cst) + 1 == count && | atomic_load_explicit(&pool->caller_sleeps, memory_order_seq_cst)) { */
#ifndef EARLY_LOOK
            asleep = caller_sleeps;
#endif
            if
            :: won && asleep ->
#ifdef DEAF_SIGNAL
                parked[WORKERS] = 0
#else
                lock(); /* @ lib/pool.c: pthread_mutex_lock(&pool->sleeping); | pthread_cond_signal(&pool->finished); | pthread_mutex_unlock(&pool->sleeping); */
                parked[WORKERS] = 0;
                unlock()
#endif
            :: else
            fi;
            asleep = 0
        :: else
        fi;
        won = 0
    od;
    atomic { its = 0; index = 0; most = 0; job = 0 }
}

proctype worker(byte me)
{
    byte seen, now, its, index, most, job;
    bool won, asleep;
    do
    :: stop -> break /* @ lib/pool.c: while (!atomic_load_explicit(&pool->stop, memory_order_acquire)) { */
    :: else ->
        do
        ::
            now = generation; /* @ lib/pool.c: const uint32_t now = generation_of(atomic_load_explicit(&pool->ticket, memory_order_acquire)); */
            if
            :: now != seen || stop -> break /* @ lib/pool.c: if (now != seen || atomic_load_explicit(&pool->stop, memory_order_relaxed)) | return now; */
            :: else
            fi
        ::
            lock();
            sleepers++; /* @ lib/pool.c: pthread_mutex_lock(&pool->sleeping); | atomic_fetch_add_explicit(&pool->sleepers, 1, memory_order_seq_cst); */
            do
            ::
                now = generation; /* @ lib/pool.c: while ((now = generation_of(atomic_load_explicit(&pool->ticket, memory_order_seq_cst))) == seen && */
                if
                :: now == seen && !stop -> wait(me) /* @ lib/pool.c: !atomic_load_explicit(&pool->stop, memory_order_seq_cst)) | pthread_cond_wait(&pool->work, &pool->sleeping); */
                :: else -> break
                fi
            od;
            sleepers--; /* @ lib/pool.c: atomic_fetch_sub_explicit(&pool->sleepers, 1, memory_order_seq_cst); | pthread_mutex_unlock(&pool->sleeping); */
            unlock();
            break
        od;
        atomic { seen = now; now = 0 } /* @ lib/pool.c: seen = next_generation(pool, seen); | work_on(pool, seen); */
        work_on(seen)
    od
}

inline store_fields()
{
#ifndef OPEN_FIELDS
    closed = 0;
#endif
    do
    :: !closed -> atomic { next = CLOSED; closed = 1 } /* @ lib/pool.c: atomic_store_explicit(&pool->ticket, (uint64_t)last << 32 \| UINT32_MAX, memory_order_seq_cst); */
    :: body != mine -> body = mine /* @ lib/pool.c: atomic_store_explicit(&pool->body, body, memory_order_relaxed); | atomic_store_explicit(&pool->argument, argument, memory_order_relaxed); */
#ifndef COUNT_EARLY
    :: closed && !counted -> count = size[mine]; counted = 1 /* @ lib/pool.c: atomic_store_explicit(&pool->count, count, memory_order_release); */
#else
    :: !counted -> count = size[mine]; counted = 1
#endif
    :: done != 0 -> done = 0 /* @ lib/pool.c: atomic_store_explicit(&pool->done, 0, memory_order_relaxed); */
    :: closed && counted && body == mine && done == 0 -> break
    od;
    counted = 0
}

proctype caller()
{
    byte mine, its, index, most, job;
    bool won, asleep, closed = 1, counted, wakes;
    do
    :: mine == JOBS -> break
    :: else ->
        mine++; /* @ lib/pool.c: const uint32_t last = generation_of(atomic_load_explicit(&pool->ticket, memory_order_relaxed)), generation = last + 1; */
        if /* fewer or more than the job before, or as many */
        :: size[mine] = mine
        :: size[mine] = THREADS
        fi;
#ifdef LOOK_BEFORE
        wakes = size[mine] > 1 && sleepers > 0;
#endif
        store_fields();
        atomic { generation = mine; next = 0 } /* @ lib/pool.c: atomic_store_explicit(&pool->ticket, (uint64_t)generation << 32, memory_order_seq_cst); | if (count > 1 && atomic_load_explicit(&pool->sleepers, memory_order_seq_cst) > 0) { */
#ifndef LOOK_BEFORE
        wakes = size[mine] > 1 && sleepers > 0;
#endif
        if
        :: wakes ->
            lock(); /* @ lib/pool.c: pthread_mutex_lock(&pool->sleeping); | pthread_cond_broadcast(&pool->work); | pthread_mutex_unlock(&pool->sleeping); */
            broadcast_work();
            unlock()
        :: else
        fi;
        wakes = 0;
        work_on(mine); /* @ lib/pool.c: work_on(pool, generation); | wait_for_all(pool, count); */
        if
        :: done == size[mine] /* @ lib/pool.c: if (atomic_load_explicit(&pool->done, memory_order_acquire) == count) */
        :: lock();
            caller_sleeps = 1; /* @ lib/pool.c: pthread_mutex_lock(&pool->sleeping); | atomic_store_explicit(&pool->caller_sleeps, 1, memory_order_seq_cst); */
#ifdef NO_LOOP
            if
            :: done != size[mine] -> wait(WORKERS)
            :: else
            fi;
#else
            do
            :: done != size[mine] -> wait(WORKERS) /* @ lib/pool.c: while (atomic_load_explicit(&pool->done, memory_order_seq_cst) != count) | pthread_cond_wait(&pool->finished, &pool->sleeping); */
            :: else -> break
            od;
#endif
            caller_sleeps = 0; /* @ lib/pool.c: atomic_store_explicit(&pool->caller_sleeps, 0, memory_order_relaxed); | pthread_mutex_unlock(&pool->sleeping); */
            unlock()
        fi;
        atomic {
            assert(done == size[mine]);
            for (index : 0 .. size[mine] - 1) { assert(runs[mine * THREADS + index] == 1) }
            index = 0
        }
    od;
#ifdef DEAF_STOP
    stop = 1;
    broadcast_work()
#else
    lock(); /* @ lib/pool.c: pthread_mutex_lock(&pool->sleeping); | atomic_store_explicit(&pool->stop, 1, memory_order_seq_cst); | pthread_cond_broadcast(&pool->work); */
    stop = 1;
    broadcast_work();
    unlock()
#endif
}

init
{
    atomic { run worker(0); run worker(1); run caller() }
    _nr_pr == 1 /* @ lib/pool.c: for (uint32_t i = 0; i < started; i++) | pthread_join(pool->worker[i], NULL); */
}
