/** Journeys of jobs: previewed, made, run at once, looked at, changed, paused, resumed and deleted. */
import { expect, test } from 'vitest';
import { example, expectShape, preferring, refusal, type Target } from './target.ts';

const url = '/api/v1/scheduler/jobs/{job_id}';
const runUrl = `${url}/runs/{job_run_id}` as const;

export function schedulerJourneys(target: () => Target): void {
  test('a job is previewed, made, run at once, changed, paused, resumed and deleted', async () => {
    const { client, liveOnly } = target();
    const schedule = { cron: '30 2 * * SAT,SUN', timezone: 'Europe/Berlin' };
    const body = { ...schedule, after: '2027-03-26T12:00:00Z' };
    const preview = await client.POST('/api/v1/scheduler/jobs/preview', { body });
    expectShape('SchedulePreview', preview.data);
    expect(preview.data.data[1]?.local).toBe('2027-03-28T03:00:00+02:00');

    // Half a day away, whenever this is: a run at its time would stand beside the one that is asked for.
    const cron = `30 ${(new Date().getUTCHours() + 12) % 24} * * SAT,SUN`;
    const task = { name: 'Nightly report', prompt: 'Hello', model: 'scripted:scripted-1' };
    const asked = { ...task, ...schedule, cron };
    const made = await client.POST('/api/v1/scheduler/jobs', { body: asked });
    expect(made.response.status).toBe(201);
    expectShape('Job', made.data);
    const path = { job_id: example.job };
    await liveOnly(() => {
      path.job_id = made.data.id;
      expect(made.response.headers.get('Location')).toBe(`/api/v1/scheduler/jobs/${path.job_id}`);
    });
    const { data: page } = await client.GET('/api/v1/scheduler/jobs', {
      params: { query: { status: 'active' } },
    });
    expectShape('JobPage', page);

    const begun = await client.POST(`${url}/run`, { params: { path } });
    expect(begun.response.status).toBe(202);
    expectShape('JobRun', begun.data);
    const place = { ...path, job_run_id: example.jobRun };
    await liveOnly(async () => {
      place.job_run_id = begun.data.id;
      const read = async () => (await client.GET(runUrl, { params: { path: place } })).data;
      await expect.poll(async () => (await read()).status).toBe('completed');
    });
    const { data: run } = await client.GET(runUrl, { params: { path: place } });
    expectShape('JobRun', run);
    expect(run.status).toBe('completed');
    const { data: runs } = await client.GET(`${url}/runs`, { params: { path } });
    expectShape('JobRunPage', runs);
    expect(runs.data.map(({ id }) => id)).toEqual([place.job_run_id]);
    await liveOnly(async () => {
      const { data: session } = await client.GET('/api/v1/sessions/{session_id}', {
        params: { path: { session_id: run.session_id ?? '' } },
      });
      expect(session.title).toBe('Nightly report');
      const late = await refusal(client.POST(`${runUrl}/cancel`, { params: { path: place } }));
      expect(late).toMatchObject({ status: 409, code: 'job_conflict' });
    });
    const cancelled = client.POST(`${runUrl}/cancel`, { params: { path: place }, ...preferring(409) });
    expect(await refusal(cancelled)).toMatchObject({ status: 409, code: 'job_conflict' });

    const read = await client.GET(url, { params: { path } });
    expectShape('Job', read.data);
    const header = { 'If-Match': read.response.headers.get('ETag') ?? '' };
    const change = { params: { path, header }, body: { cron: '0 1 * * 1-5' } };
    const changed = await client.PATCH(url, change);
    expect(changed.data.cron).toBe('0 1 * * 1-5');
    const stale = await refusal(client.PATCH(url, { ...change, ...preferring(412) }));
    expect(stale).toMatchObject({ status: 412, code: 'precondition_failed' });

    const paused = await client.POST(`${url}/pause`, { params: { path } });
    expect(paused.data).toMatchObject({ status: 'paused', pause_reason: 'requested', next_runs: [] });
    const resumed = await client.POST(`${url}/resume`, { params: { path } });
    expect(resumed.data.status).toBe('active');
    const again = await refusal(client.POST(`${url}/resume`, { params: { path }, ...preferring(409) }));
    expect(again).toMatchObject({ status: 409, code: 'job_conflict' });
    expect((await client.DELETE(url, { params: { path } })).response.status).toBe(204);
    const gone = await refusal(client.GET(url, { params: { path }, ...preferring(404) }));
    expect(gone).toMatchObject({ status: 404, code: 'not_found' });
  });

  test('the operator sees how the scheduler stands, and nobody else', async () => {
    const { client, operator } = target();
    const { data } = await operator.GET('/api/v1/scheduler/status');
    expectShape('SchedulerStatus', data);
    const refused = await refusal(client.GET('/api/v1/scheduler/status', preferring(403)));
    expect(refused.status).toBe(403);
  });
}
