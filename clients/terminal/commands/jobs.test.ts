/** `service jobs`: an agent at set times on a server, from the first look at the clock to the last. */
import { expect, test } from 'vitest';
import { testHome } from '../test-command.ts';
import { startTestServer } from '../test-server.ts';

test('a job is previewed, made, run, looked at, paused, resumed and deleted', async () => {
  const server = await startTestServer();
  const home = testHome();
  const { data } = await server.client.POST('/api/v1/auth/api-keys', { body: { name: 'terminal' } });
  const jobs = (...words: string[]) =>
    home.service(['jobs', ...words, '--server', server.url], { variables: { SERVICE_API_KEY: data.key } });

  const preview = await jobs('preview', '--cron', '30 2 * * *', '--timezone', 'Europe/Berlin');
  expect(preview.stdout.trimEnd().split('\n')).toHaveLength(10);
  expect(await jobs('preview')).toMatchObject({ code: 2, stderr: expect.stringContaining('--cron') });
  const daily = await jobs('preview', '--cron', '@daily');
  expect(daily).toMatchObject({ code: 2, stderr: expect.stringContaining('--cron takes five fields') });

  // Half a day away, whenever this is: a run at its time would come beside the one that is asked for.
  const hour = (new Date().getUTCHours() + 12) % 24;
  const cron = `0 ${hour} * * 1-5`;
  const when = ['--cron', cron, '--timezone', 'Europe/Berlin', '--model', 'demo:demo-1'];
  const rules = ['--allow', 'write', 'bash:git log *', '--retries', '2', '--timeout', '90m'];
  const made = await jobs('create', 'Say', 'what', 'has', 'changed.', ...when, ...rules);
  expect(made).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/^Made job_\w{26}, which runs next at /),
  });
  const [job] = JSON.parse((await jobs('list', '--json')).stdout);
  expect(job).toMatchObject({
    ...{ name: 'Say what has changed.', cron, max_retries: 2, timeout_s: 5400 },
    permission_rules: [
      { tool: 'write', decision: 'allow' },
      { tool: 'bash', pattern: 'git log *', decision: 'allow' },
    ],
  });
  const end = job.id.slice(-8);
  expect((await jobs('run', end)).stdout).toMatch(/^Queued jbr_\w{26}; /);
  const runs = async () => (await jobs('runs', end)).stdout.split('\t')[1];
  await expect.poll(runs, { interval: 300 }).toBe('completed');
  const shown = (await jobs('show', end)).stdout;
  expect(shown).toContain(job.id);
  expect(shown).toContain(`active, 0 runs at its times\n  ${cron} Europe/Berlin\n  next `);
  expect(shown).toMatch(/Berlin\n( {2}next .*\n){3} {2}last .*: completed/);
  expect((await jobs('pause', end)).stdout).toBe(`Paused ${job.id}\n`);
  expect((await jobs('list', '--status', 'paused')).stdout).toContain(job.id);
  expect((await jobs('resume', end)).stdout).toContain(`Resumed ${job.id}, which runs next at `);
  expect(await jobs('delete', end)).toMatchObject({ code: 2, stderr: expect.stringContaining('--yes') });
  expect((await jobs('delete', end, '--yes')).stdout).toBe(`Deleted ${job.id}\n`);
  expect(await jobs('show', end)).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('There is no job'),
  });
});

test('a moment is one of the clock here, a day begins at its midnight, and what is neither is refused', async () => {
  const server = await startTestServer();
  const variables = {
    SERVICE_API_KEY: server.operatorKey,
    SERVICE_SERVER: server.url,
    TZ: 'America/New_York',
  };
  const preview = (at: string) => testHome().service(['jobs', 'preview', '--at', at], { variables });
  const day = await preview('2098-01-31');
  expect(day).toMatchObject({ code: 0, stdout: expect.stringMatching(/^2098-01-31T05:00:00\S*Z\t/) });
  expect((await preview('2098-01-31T18:00')).stdout).toMatch(/^2098-01-31T23:00:00\S*Z\t/);
  expect((await preview('2098-01-31T18:00+01:00')).stdout).toMatch(/^2098-01-31T17:00:00\S*Z\t/);
  for (const none of ['job 7', '5', '2098-02-30T10:00', '2098-02-30', '2098-01-31T25:00', '2098-13-01'])
    expect(await preview(none)).toMatchObject({
      code: 2,
      stdout: '',
      stderr: expect.stringContaining('--at takes a day or a moment, as 2027-01-31'),
    });
});

test('the server of all commands of a shell is named by a variable', async () => {
  const variables = { SERVICE_SERVER: 'http://127.0.0.1:9', SERVICE_API_KEY: 'sk-x' };
  const listed = await testHome().service(['jobs', 'list'], { variables });
  expect(listed).toMatchObject({ code: 4, stderr: expect.stringContaining('http://127.0.0.1:9') });
});

test('without a server there is nobody who would run it at night', async () => {
  const alone = await testHome().service(['jobs', 'list']);
  expect(alone).toMatchObject({ code: 2, stderr: expect.stringContaining('--server') });
});
