/** Commands that no sandbox holds: what they leave behind, and whose they are on a server of root. */
import { chmodSync, chownSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { findExecutable } from '../processes/executable.ts';
import { whyProcessesMayOutlive } from '../processes/tracking-group.ts';
import { bashTool } from './bash.ts';
import { jobKillTool, jobOutputTool } from './job-tools.ts';
import { createJobs } from './jobs.ts';
import { callTool, SECRET, testWorkspace } from './test-workspace.ts';

function setUp() {
  const jobs = createJobs();
  onTestFinished(() => jobs.close());
  return { jobs, bash: bashTool({ sandbox: null, allowNetwork: false, jobs }), workspace: testWorkspace() };
}

const hides = (length: string) => `setsid env -i /bin/sh -c "(exec /bin/sleep ${length}) & exit"; echo ready`;

test.skipIf(whyProcessesMayOutlive() !== null).each([
  ['its ordinary end', ''],
  ['job_kill', 'sleep 60'],
  ['an interrupt', 'sleep 60'],
])('a process with another session, parent and environment is gone with %s', async (how, rest) => {
  const { jobs, bash, workspace } = setUp();
  const length = uniqueSleep();
  const run = new AbortController();
  const context = workspace.context({ signal: run.signal });
  const command = `${hides(length)}; sleep 0.1; ${rest}`;
  const started = await callTool(bash, { command, run_in_background: rest !== '' }, context);
  if (rest === '') expect(started.content).toContain('ready');
  else {
    const later = () => callTool(jobOutputTool(jobs), { ...started.metadata, wait_seconds: 50 }, context);
    // What it writes in the first moment is told by bash.
    const told = started.content.includes('ready') ? started : await later();
    expect(told.content).toContain('ready');
    await expect.poll(() => sleepers(length)).toHaveLength(1);
  }
  if (how === 'job_kill') await callTool(jobKillTool(jobs), started.metadata, context);
  run.abort();
  await expect.poll(() => sleepers(length)).toEqual([]);
});

test.skipIf(process.getuid?.() !== 0 || !findExecutable('setpriv'))(
  'a server of root runs them as the owner of the workspace, who sees neither its files nor its processes',
  async () => {
    const { bash, workspace } = setUp();
    const owner = 65_533;
    chownSync(workspace.path, owner, owner);
    // The way is open, as to a data directory; what lies there is not.
    for (const folder of [dirname(workspace.path), dirname(workspace.secretFile)]) chmodSync(folder, 0o755);
    chmodSync(workspace.secretFile, 0o600);
    const look = [
      'id -u; id -G; echo made > made',
      `cat ${workspace.secretFile}; cat /proc/${process.pid}/environ; ls -l /proc/${process.pid}/root/ /proc/${process.pid}/fd`,
      `kill -0 ${process.pid} && echo reached`,
      'grep NoNewPrivs /proc/self/status',
    ];
    const { content } = await callTool(bash, { command: look.join('; ') }, workspace.context());
    expect(content).toMatch(/^65533\n65533\n/);
    expect(content).not.toContain(SECRET);
    expect(content).not.toMatch(/PATH=|reached|->/);
    expect(content.match(/Permission denied|not permitted/g)?.length).toBeGreaterThanOrEqual(4);
    expect(content).toMatch(/NoNewPrivs:\s+1/);
    expect(statSync(`${workspace.path}/made`).uid).toBe(owner);
  },
);

/** A length of sleep that no other process on the machine has. */
function uniqueSleep(): string {
  return `${2000 + Math.floor(Math.random() * 1_000_000)}.${process.pid}`;
}

function sleepers(length: string): string[] {
  return readdirSync('/proc').filter((pid) => {
    try {
      return /^\d+$/.test(pid) && readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes(`sleep\0${length}\0`);
    } catch {
      return false; // It has ended meanwhile.
    }
  });
}
