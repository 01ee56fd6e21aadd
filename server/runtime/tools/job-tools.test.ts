// Commands in the background, with real processes.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { isHeld } from '../../test-garbage.ts';
import { bashTool } from './bash.ts';
import { jobKillTool, jobOutputTool } from './job-tools.ts';
import { createJobs, type JobLimits } from './jobs.ts';
import { callTool, testWorkspace } from './test-workspace.ts';

const few: JobLimits = { ofSession: 10, ofProcess: 200, remembered: 20, rememberedMs: 60_000 };

function setUp(limits?: JobLimits) {
  const jobs = createJobs(limits);
  onTestFinished(() => jobs.close());
  const workspace = testWorkspace();
  const bash = bashTool({ sandbox: null, allowNetwork: false, jobs });
  /** Of the first command that was started, the second, and so on; they are numbered behind what is random. */
  let random = '';
  const idOf = (job: number | string) => (typeof job === 'string' ? job : `${random}${job}`);
  const [output, kill] = [jobOutputTool(jobs), jobKillTool(jobs)];
  return {
    jobs,
    bash,
    workspace,
    async start(command: string, context = workspace.context()) {
      const started = await callTool(bash, { command, run_in_background: true }, context);
      random ||= String(started.metadata?.job_id).replace(/\d+$/, '');
      return started;
    },
    // It ends with the first news: a busy machine may take long to begin a command.
    output: (job: number | string, wait_seconds = 60, context = workspace.context()) =>
      callTool(output, { job_id: idOf(job), wait_seconds }, context),
    kill: (job: number | string, context = workspace.context()) =>
      callTool(kill, { job_id: idOf(job) }, context),
  };
}

describe('a command in the background', () => {
  test('returns at once, goes on, and gives its output in pieces, each once', async () => {
    const { start, output, workspace } = setUp();
    const until = (name: string) => `until [ -e ${name} ]; do sleep 0.02; done`;
    // What it writes in the first moment would be told by bash.
    const started = await start(`${until('begin')}; echo one; ${until('go')}; echo two; exit 3`);
    workspace.file('begin', '');
    const named = /^job_[a-hjkmnp-z2-9]{4}_1$/;
    expect(started).toMatchObject({ is_error: false, metadata: { job_id: expect.stringMatching(named) } });
    expect(started.content).toContain(`in the background as ${started.metadata?.job_id}.`);
    expect((await output(1)).content).toMatch(/^one\n\(It still runs, for \d+ s by now\.\)$/);
    expect((await output(1, 0)).content).toMatch(/^\(no new output\)\n\(It still runs, /);
    workspace.file('go', '');
    const last = await output(1);
    const rest = last.content.includes('still runs') ? await output(1) : last;
    expect(`${last.content}${rest.content}`).toContain('two');
    expect(rest.content).toContain('(Exit code 3.)');
    expect((await output(1)).content).toBe('(no new output)\n(Exit code 3.)');
  });

  test('keeps nothing of the run that it has been left by', async () => {
    const { start, workspace } = setUp();
    const left = async () => {
      const progress = () => undefined;
      await start('echo begun; sleep 60', { ...workspace.context(), progress });
      return new WeakRef(progress);
    };
    const progress = await left();
    await expect.poll(() => isHeld(progress)).toBe(false);
  });

  test('loses no character that is written half before it goes there, and none that is never written whole', async () => {
    const { jobs, output, workspace } = setUp();
    const bash = bashTool({ sandbox: null, allowNetwork: false, jobs, patienceS: 1 });
    const command = "printf 'caf\\303'; until [ -e go ]; do sleep 0.02; done; printf '\\251 ol\\303'";
    const started = await callTool(bash, { command }, workspace.context());
    expect(started.content).toMatch(/^caf\n\(After 1 s/);
    const id = String(started.metadata?.job_id);
    workspace.file('go', '');
    const pieces: string[] = [];
    while (!pieces.at(-1)?.includes('Exit code')) pieces.push((await output(id)).content);
    expect(pieces.join('')).toMatch(/é ol[^é]*\ufffd/);
  });

  test('is what takes longer than is waited for, a minute by default, where no time for it was said', async () => {
    const { jobs, output, workspace } = setUp();
    const options = { sandbox: null, allowNetwork: false, jobs };
    expect(bashTool(options).description).toContain('takes longer than 60 s goes on in the background');
    const bash = bashTool({ ...options, patienceS: 0.2 });
    const command = 'until [ -e go ]; do sleep 0.02; done; echo done';
    const { is_error, content, metadata } = await callTool(bash, { command }, workspace.context());
    const id = String(metadata?.job_id);
    expect(is_error).toBe(false);
    expect(content).toContain(`(After 0.2 s it goes on in the background as ${id}. job_output gives `);
    workspace.file('go', '');
    // The first news may be the output, or the end with it.
    const told = [await output(id), await output(id)].map((news) => news.content).join('\n');
    expect(told).toMatch(/^done\n.*\(Exit code 0\.\)$/s);
    const waited = { command: 'sleep 0.4', timeout_seconds: 60 };
    expect((await callTool(bash, waited, workspace.context())).content).toContain('(Exit code 0.)');
  });

  test('that is stopped by its own limit says after how long', async () => {
    const { bash, output, workspace } = setUp();
    const call = { command: 'sleep 60', run_in_background: true, timeout_seconds: 1 };
    const started = await callTool(bash, call, workspace.context());
    expect((await output(String(started.metadata?.job_id))).content).toContain('(Stopped after 1 s. ');
  });

  test('is ended by job_kill with all that it started', async () => {
    const { start, kill } = setUp();
    const length = uniqueSleep();
    await start(`sleep ${length} & setsid sleep ${length} & wait`);
    await expect.poll(() => sleepers(length)).toHaveLength(2);
    expect(await kill(1)).toMatchObject({ is_error: false, metadata: { running: false } });
    await expect.poll(() => sleepers(length)).toEqual([]);
    expect((await kill(1)).is_error).toBe(false);
  });

  test('ends with an interrupt of the run that started it, and stays after its ordinary end', async () => {
    const { start, output, workspace } = setUp();
    const length = uniqueSleep();
    const run = new AbortController();
    await start(`sleep ${length}`, workspace.context({ signal: run.signal }));
    await start(`sleep ${length}`);
    await expect.poll(() => sleepers(length)).toHaveLength(2);
    run.abort();
    expect((await output(1)).content).toContain(
      '(Ended by job_kill, with its run, or because too many commands were at work.)',
    );
    await expect.poll(() => sleepers(length)).toHaveLength(1);
  });

  test('ends with the runtime', async () => {
    const { start, jobs } = setUp();
    const length = uniqueSleep();
    await start(`sleep ${length}`);
    await expect.poll(() => sleepers(length)).toHaveLength(1);
    await jobs.close();
    await expect.poll(() => sleepers(length)).toEqual([]);
  });

  test('is not there for another session', async () => {
    const { start, output, workspace } = setUp();
    await start('sleep 5');
    await expect(output(1, 0, workspace.context({ sessionId: 'session_2' }))).rejects.toThrow(
      /^There is no job job_\w+_1; this session has none\./,
    );
  });

  test('is not taken for one that another server has started before: that one is over, and so it is told', async () => {
    const [before, after] = [setUp(), setUp()];
    const old = String((await before.start('sleep 60')).metadata?.job_id);
    await before.jobs.close();
    const id = String((await after.start('sleep 60')).metadata?.job_id);
    const told = `There is no job ${old}; there are: ${id}. Commands end with the server that started them: one from before a restart is over.`;
    await expect(after.kill(old)).rejects.toThrow(told);
    await expect(after.output(old)).rejects.toThrow(told);
    expect((await after.output(1, 0)).content).toContain('It still runs');
  });

  test('that writes without end takes bounded memory, and the latest is what is told', async () => {
    const { start, output } = setUp();
    await start('head -c 5000000 /dev/zero | tr "\\0" x; echo; echo last; sleep 60');
    await expect.poll(async () => (await output(1, 1)).content).toMatch(/(^|\n)last\n\(It still runs, .*\)$/);
    expect((await output(1, 0)).content.length).toBeLessThan(31_000);
  });
});

test('a session has no more than ten at a time, and room again when one ends', async () => {
  const { start, kill } = setUp();
  for (let index = 0; index < 10; index += 1) await start('sleep 60');
  expect(await start('touch more')).toMatchObject({
    is_error: true,
    content: expect.stringContaining('Too many commands are at work already'),
  });
  await kill(1);
  expect((await start('sleep 60')).is_error).toBe(false);
});

test('where there are too many, the oldest of the workspace that has most gives way, and none that is waited for', async () => {
  const { start, output, kill, workspace, jobs } = setUp({ ...few, ofProcess: 4 });
  const [greedy, modest] = [workspace, testWorkspace()];
  const at = (sessionId: string, place = greedy) => place.context({ sessionId });
  await start('sleep 60', at('modest', modest));
  for (const session of ['one', 'two', 'three']) await start('sleep 60', at(session));
  expect((await start('sleep 60', at('four'))).is_error).toBe(false);
  const ended = await output(2, 60, at('one'));
  expect(ended.content).toContain('too many commands were at work');
  expect((await output(1, 0, at('modest', modest))).content).toContain('It still runs');

  const bash = bashTool({ sandbox: null, allowNetwork: false, jobs });
  const awaited = callTool(bash, { command: 'until [ -e go ]; do sleep 0.02; done' }, at('five'));
  await expect.poll(() => jobs.list('five')).toHaveLength(1);
  for (const session of ['six', 'seven', 'eight', 'nine', 'ten']) await start('sleep 60', at(session));
  workspace.file('go', '');
  expect((await awaited).content).toContain('(Exit code 0.)');
  expect((await kill(11, at('ten'))).is_error).toBe(false);
});

test('what ended long ago is forgotten, whichever session the next command is of', async () => {
  const { start, output, workspace, jobs } = setUp({ ...few, rememberedMs: 0 });
  await start('echo done');
  await output(1);
  await expect.poll(async () => (await output(1, 0)).content).toContain('Exit code 0');
  await start('sleep 60', workspace.context({ sessionId: 'another' }));
  expect(jobs.list('session_1')).toEqual([]);
});

test('a command that ends while it is watched is no job afterwards', async () => {
  const { workspace, jobs } = setUp();
  await callTool(
    bashTool({ sandbox: null, allowNetwork: false, jobs }),
    { command: 'echo > done' },
    workspace.context(),
  );
  expect(jobs.list('session_1')).toEqual([]);
  expect(existsSync(join(workspace.path, 'done'))).toBe(true);
});

/** A length of sleep that no other process on the machine has. */
function uniqueSleep(): string {
  return `${1000 + Math.floor(Math.random() * 1_000_000)}.${process.pid}`;
}

function sleepers(length: string): string[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .filter((pid) => {
      try {
        return readFileSync(`/proc/${pid}/cmdline`, 'utf8') === `sleep\0${length}\0`;
      } catch {
        return false; // It has ended meanwhile.
      }
    });
}
