/** Quotas, on both databases: who may set them, whom they bind, and that a hundred at once do not pass together. */
import { describe, expect, it } from 'vitest';
import type { QuotaLimits } from '../contract/api.ts';
import { newId } from '../ids.ts';
import { waiting } from './test-locks.ts';
import { patiently } from './test-patience.ts';
import { beginRun, endRun, message } from './test-runs.ts';
import { bothOf, describeStore, describeStores, newAccount } from './test-stores.ts';

const usage = { input_tokens: 100, output_tokens: 20, cached_input_tokens: 0 };

describeStores('Quotas', (store, engine) => {
  const owner = async () => ({ ...(await newAccount(store())), operator: false, needs: 'admin' as const });
  type Owner = Awaited<ReturnType<typeof owner>>;
  const ofUser = (id: string) => ({ type: 'user' as const, id });
  const limit = (admin: Owner, limits: QuotaLimits, subject = ofUser(admin.userId)) =>
    store().quotas.put(admin, subject, limits);
  const step = (run: { readonly runId: string; readonly sessionId: string }) =>
    store().transcript.commitStep({
      ...{ ...run, usage, cost: 0.5, steps: 1, events: [] },
      messages: [message('assistant', 'x')],
    });
  const exceeded = { code: 'quota_exceeded' };

  it('lets no more runs begin than a hard limit of requests says, however many come at once', async () => {
    const admin = await owner();
    const [organization = ''] = admin.organizationIds;
    await limit(admin, { requests: { day: { hard: 5 } } });
    await store().quotas.put(
      admin,
      { type: 'organization', id: organization },
      { requests: { month: { hard: 100 } } },
    );
    const begun = await Promise.allSettled(Array.from({ length: 20 }, () => beginRun(store(), admin)));
    expect(begun.filter(({ status }) => status === 'fulfilled')).toHaveLength(5);
    for (const one of begun) if (one.status === 'rejected') expect(one.reason).toMatchObject(exceeded);
    const [daily, monthly] = await store()
      .quotas.effective(admin, null)
      .then((uses) => uses.toSorted((a, b) => (a.window ?? '').localeCompare(b.window ?? '')));
    expect(daily).toMatchObject({ used: 5, hard: 5, resets_at: '2026-11-22T00:00:00.000Z' });
    expect(monthly).toMatchObject({ used: 5, hard: 100, resets_at: '2026-12-01T00:00:00.000Z' });
  });

  it('lets runs begin and jobs be made together: none of them waits for one that waits for it', async () => {
    const admin = await owner();
    await limit(admin, { requests: { day: { hard: 1000 } }, jobs: { hard: 1000 } });
    const timing = () => ({ at: 0, dueAt: 0 });
    const made = await Promise.allSettled(
      Array.from({ length: 40 }, (_, index) =>
        index % 2 === 0
          ? beginRun(store(), admin)
          : store().jobs.create(
              admin,
              { name: 'x', prompt: 'x', interval_s: 3600 },
              { apiKeyId: null, timing, firstTiming: timing },
            ),
      ),
    );
    expect(made.flatMap((one) => (one.status === 'rejected' ? [one.reason] : []))).toEqual([]);
  });

  it('says which limit is reached, how much of it is used and when it resets', async () => {
    const admin = await owner();
    await limit(admin, { tokens: { day: { hard: 100 } }, cost: { month: { hard: 0.5 } } });
    await step(await beginRun(store(), admin));
    const problem = await beginRun(store(), admin).catch((error: unknown) => error);
    expect(problem).toMatchObject({
      ...exceeded,
      message: `The quota of the account ${admin.userId} allows $0.5 in a month, and $0.5 are used. It resets at 2026-12-01T00:00:00.000Z.`,
      headers: { 'Retry-After': String(9 * 86_400 + 16 * 3600) },
      quota: { resource: 'cost', window: 'month', used: 0.5, hard: 0.5 },
    });
  });

  it('counts runs that are there, and lets the next one in when one has ended', async () => {
    const admin = await owner();
    await limit(admin, { concurrent_runs: { hard: 2 } });
    const first = await beginRun(store(), admin);
    await beginRun(store(), admin);
    await expect(beginRun(store(), admin)).rejects.toMatchObject({
      ...exceeded,
      headers: { 'Retry-After': '5' },
      quota: { resource: 'concurrent_runs', window: null, resets_at: null, used: 2 },
    });
    await endRun(store(), first);
    await beginRun(store(), admin);
    expect(await store().quotas.effective(admin, null)).toMatchObject([{ used: 2 }]);
  });

  it('tells a run at work when tokens or cost are used up, and of soft limits that are passed', async () => {
    const admin = await owner();
    await limit(admin, { tokens: { day: { soft: 100, hard: 200 } }, requests: { day: { hard: 1 } } });
    const run = await beginRun(store(), admin);
    const asked = () => store().transcript.readQuotas(run.runId);
    // That it was the last request does not end it.
    expect(await asked()).toEqual({ exceeded: null, warnings: [] });
    await step(run);
    const { exceeded: none, warnings } = await asked();
    expect(none).toBeNull();
    expect(warnings).toMatchObject([
      { message: expect.stringMatching(/100 tokens in a day is passed: 120 are used/) },
    ]);
    await step(run);
    expect((await asked()).exceeded).toMatch(/allows 200 tokens in a day, and 240 are used/);
  });

  it('begins anew with the day and with the month', async () => {
    const admin = await owner();
    await limit(admin, { tokens: { day: { hard: 100 }, month: { hard: 230 } } });
    await step(await beginRun(store(), admin));
    await expect(beginRun(store(), admin)).rejects.toMatchObject(exceeded);
    engine.clock.advance(16 * 3_600_000);
    await step(await beginRun(store(), admin));
    engine.clock.advance(24 * 3_600_000);
    await expect(beginRun(store(), admin)).rejects.toMatchObject({ quota: { window: 'month', used: 240 } });
    engine.clock.advance(8 * 24 * 3_600_000);
    await beginRun(store(), admin);
    engine.clock.advance(-(9 * 24 + 16) * 3_600_000);
  });

  it('holds the key that asks, and no other', async () => {
    const admin = await owner();
    const made = await store().apiKeys.create(admin, {
      ...{ name: 'k', scopes: ['query'], hash: newId('request'), prefix: 'sk-12345678' },
    });
    const key = made.apiKey.id;
    await store().quotas.put(admin, { type: 'api_key', id: key }, { requests: { day: { hard: 1 } } });
    await beginRun(store(), admin, { apiKeyId: key });
    await expect(beginRun(store(), admin, { apiKeyId: key })).rejects.toMatchObject(exceeded);
    await beginRun(store(), admin);
    expect(await store().quotas.effective(admin, null)).toEqual([]);
    expect(await store().quotas.effective(admin, key)).toMatchObject([{ subject_type: 'api_key', used: 1 }]);
  });

  it('counts what is stored as it was at one moment, whatever becomes of it meanwhile', async () => {
    const admin = await owner();
    await limit(admin, { storage: { hard: 10_000 } });
    const { session } = await store().sessions.create(admin, {});
    const { corpus } = await store().corpora.create(admin, { name: 'Library' });
    const texts = [{ title: 'One', text: 'One.' }];
    const { job } = await store().ingestionJobs.add(admin, corpus.id, { texts }, null);
    // As an upload becomes a file: what was counted at one place is counted at another.
    const move = (kept_bytes: number, bytes: number) =>
      engine.sql().transaction(async (sql) => {
        await sql('sessions').where({ id: session.id }).update({ kept_bytes });
        await sql('documents').where({ id: job.items[0]?.document_id }).update({ bytes });
      });
    await move(1000, 0);
    let moving = true;
    const seen = new Set<number | undefined>();
    const look = async () => {
      while (moving) seen.add((await store().quotas.effective(admin, null))[0]?.used);
    };
    const looks = Promise.all([look(), look(), look()]);
    for (let times = 0; times < 50; times += 1) {
      await move(0, 1000);
      await move(1000, 0);
    }
    moving = false;
    await looks;
    expect([...seen]).toEqual([1000]);
  });

  it('holds a model call without a session as it holds runs', async () => {
    const admin = await owner();
    await limit(admin, { requests: { day: { hard: 2 } }, tokens: { day: { soft: 100 } } });
    const reach = { ...admin, needs: 'member' as const };
    const call = await store().meteredCalls.begin(reach, 'demo:demo-1', null);
    await store().meteredCalls.finish(call, { model: 'demo:demo-1', usage, cost: 0 });
    const second = await store().meteredCalls.begin(reach, 'demo:demo-1', null);
    expect(second.notices).toMatchObject([expect.stringContaining('120 are used')]);
    await expect(store().meteredCalls.begin(reach, 'demo:demo-1', null)).rejects.toMatchObject(exceeded);
    await expect(beginRun(store(), admin)).rejects.toMatchObject(exceeded);
  });

  it('lets exactly as many of a hundred model calls at once begin, and counts them and their end', async () => {
    const [admin, other] = [await owner(), await owner()];
    await limit(admin, { requests: { day: { hard: 30 } }, concurrent_runs: { hard: 30 } });
    const { meteredCalls } = store();
    const begin = (reach: typeof admin) =>
      patiently(() => meteredCalls.begin({ ...reach, needs: 'member' }, 'demo:demo-1', null));
    const asked = Array.from({ length: 100 }, (_, index) => [
      begin(admin),
      ...(index % 4 ? [] : [begin(other)]),
    ]);
    const answers = await Promise.allSettled(asked.flat());
    const begun = answers.flatMap((answer) => (answer.status === 'fulfilled' ? [answer.value] : []));
    expect(begun).toHaveLength(30 + 25);
    for (const answer of answers)
      if (answer.status === 'rejected') expect(answer.reason).toMatchObject(exceeded);
    // Those whom no quota binds are counted with their end, and need no id until then.
    const ids = begun.flatMap(({ id }) => id ?? []);
    expect(new Set(ids).size).toBe(30);
    const uses = async () =>
      (await store().quotas.effective(admin, null)).map(({ resource, used }) => [resource, used]);
    expect(await uses()).toEqual([
      ['requests', 30],
      ['concurrent_runs', 30],
    ]);
    const spent = (cost: number | null) => ({ model: 'demo:demo-1', usage, cost });
    await Promise.all(begun.map((call, index) => meteredCalls.finish(call, spent(index % 5 ? 0.5 : null))));
    // What has ended already ends no other.
    await Promise.all(begun.map((call) => meteredCalls.end(call)));
    expect(await uses()).toEqual([
      ['requests', 30],
      ['concurrent_runs', 0],
    ]);
    const rows = await engine.sql()('usage_days').whereIn('user_id', [admin.userId, other.userId]);
    const sum = (column: string) => rows.reduce((total, row) => total + Number(row[column]), 0);
    expect(['requests', 'input_tokens', 'unpriced_calls', 'cost_nanodollars'].map(sum)).toEqual([
      ...[55, 55 * usage.input_tokens, 11, 44 * 500_000_000],
    ]);
  });

  describe('are set', () => {
    it('for members of an organization by its admins, and count what is used there', async () => {
      const [ada, bob] = [await owner(), await owner()];
      const [company = '', home = ''] = [...ada.organizationIds, ...bob.organizationIds];
      await engine
        .sql()('memberships')
        .insert({ organization_id: company, user_id: bob.userId, role: 'member', created_at: 2 });
      const { quota } = await limit(ada, { requests: { day: { hard: 1 } } }, ofUser(bob.userId));
      expect(quota.organization_id).toBe(company);
      for (const _ of [1, 2]) await beginRun(store(), bob);
      const { session } = await store().sessions.create(ada, {});
      const inCompany = { ...bob, workspaces: ada.workspaces };
      await beginRun(store(), inCompany, { sessionId: session.id });
      await expect(beginRun(store(), inCompany, { sessionId: session.id })).rejects.toMatchObject({
        quota: { organization_id: company, used: 1 },
      });
      // What Bob sets for himself counts at home.
      const own = await limit(bob, { requests: { day: { hard: 9 } } });
      expect(own.quota).toMatchObject({ organization_id: home, use: [{ used: 2 }] });
    });

    it('by nobody who is no admin there, and for nobody who is not', async () => {
      const [ada, bob] = [await owner(), await owner()];
      const [company = ''] = ada.organizationIds;
      const stranger = limit(bob, { requests: { day: { hard: 1 } } }, ofUser(ada.userId));
      await expect(stranger).rejects.toMatchObject({ code: 'not_found' });
      const member = {
        ...bothOf(bob, { ...ada, memberships: [{ organizationId: company, role: 'member' }] }),
        ...{ operator: false, needs: 'admin' as const, userId: bob.userId },
      };
      const refused = store().quotas.put(member, ofUser(ada.userId), { jobs: { hard: 1 } });
      await expect(refused).rejects.toMatchObject({ code: 'role_required' });
      const wrongKind = store().quotas.find(ada, { type: 'group', id: ada.userId });
      await expect(wrongKind).rejects.toMatchObject({ code: 'not_found' });
    });

    it('by the operator for everybody, everywhere or in one organization', async () => {
      const [ada, operator] = [await owner(), { ...(await owner()), operator: true }];
      const [company = ''] = ada.organizationIds;
      const everywhere = await store().quotas.put(operator, ofUser(ada.userId), {
        requests: { day: { hard: 1 } },
      });
      expect(everywhere.quota.organization_id).toBeNull();
      const there = { ...ofUser(ada.userId), organizationId: company };
      await store().quotas.put(operator, there, { requests: { day: { hard: 7 } } });
      await beginRun(store(), ada);
      await expect(beginRun(store(), ada)).rejects.toMatchObject({ quota: { organization_id: null } });
      expect(await store().quotas.effective(ada, null)).toHaveLength(2);
      await store().quotas.delete(operator, ofUser(ada.userId));
      await beginRun(store(), ada);
      await expect(store().quotas.find(operator, ofUser(ada.userId))).rejects.toMatchObject({
        code: 'not_found',
      });
    });

    it('by the operator for an organization, a workspace and a group, whose admins neither see nor lift it', async () => {
      const [ada, operator] = [await owner(), { ...(await owner()), operator: true }];
      const [company = ''] = ada.organizationIds;
      const [workspace] = ada.workspaces;
      const missing = { code: 'not_found' };
      for (const subject of [
        { type: 'organization' as const, id: company },
        { type: 'workspace' as const, id: workspace?.id ?? expect.fail() },
      ]) {
        const { quota } = await store().quotas.put(operator, subject, { concurrent_runs: { hard: 1 } });
        expect(quota).toMatchObject({ organization_id: company, use: [{ used: 0 }] });
        await expect(store().quotas.delete(ada, subject)).rejects.toMatchObject(missing);
        await expect(store().quotas.find(ada, subject)).rejects.toMatchObject(missing);
        await store().quotas.put(ada, subject, { concurrent_runs: { hard: 1000 } });
        const run = await beginRun(store(), ada);
        await expect(beginRun(store(), ada)).rejects.toMatchObject({ quota: { used: 1, hard: 1 } });
        expect((await store().quotas.effective(ada, null)).map(({ hard }) => hard)).toEqual([1, 1000]);
        await endRun(store(), run);
        await store().quotas.delete(operator, subject);
        const theirs = { ...subject, organizationId: company };
        await expect(store().quotas.find(operator, theirs)).resolves.toBeDefined();
        await store().quotas.delete(ada, subject);
      }
    });

    it('for a workspace by nobody who is admin of that alone', async () => {
      const [ada, bob] = [await owner(), await owner()];
      const [workspace] = ada.workspaces;
      const memberships = ada.memberships.map((one) => ({ ...one, role: 'member' as const }));
      const admin = {
        ...bothOf(bob, {
          ...ada,
          memberships,
          workspaces: ada.workspaces.map((one) => ({ ...one, role: 'admin' as const })),
        }),
        ...{ operator: false, needs: 'admin' as const, userId: bob.userId },
      };
      const subject = { type: 'workspace' as const, id: workspace?.id ?? expect.fail() };
      const refused = store().quotas.put(admin, subject, { jobs: { hard: 1 } });
      await expect(refused).rejects.toMatchObject({ code: 'role_required' });
    });

    it('in place of what was set before, by who has read that, and recorded', async () => {
      const admin = await owner();
      const first = await limit(admin, { requests: { day: { hard: 1 } } });
      const put = (ifMatch: string) =>
        store().quotas.put(admin, ofUser(admin.userId), { jobs: { soft: 2 } }, ifMatch);
      await expect(put('"0"')).rejects.toMatchObject({ code: 'precondition_failed' });
      const second = await put(first.etag);
      expect(second.quota.limits).toEqual({ jobs: { soft: 2 } });
      await expect(put(first.etag)).rejects.toMatchObject({ code: 'precondition_failed' });
      const entries = await engine
        .sql()('audit_entries')
        .where({ target_id: admin.userId, action: 'quota.put' })
        .orderBy('sequence');
      expect(entries).toMatchObject([{ before: null }, { actor_id: admin.userId, outcome: 'success' }]);
      expect(JSON.parse(entries[1].before)).toEqual({ 'limits.requests.day.hard': 1 });
    });
  });
});

// SQLite has one writer.
describeStore('postgresql', 'A quota', (store, engine) => {
  it('that is set while somebody deletes it is there afterwards, as the answer says', async () => {
    const admin = { ...(await newAccount(store())), operator: false, needs: 'admin' as const };
    const subject = { type: 'user' as const, id: admin.userId };
    const limits = { jobs: { hard: 2 } };
    await store().quotas.put(admin, subject, { jobs: { hard: 1 } });
    const [setting] = await engine.sql().transaction(async (deleting) => {
      const one = deleting('quotas').where({ subject_id: admin.userId });
      await one.clone().forUpdate();
      const set = store().quotas.put(admin, subject, limits);
      set.catch(() => undefined);
      await expect.poll(() => waiting(engine.sql()), { timeout: 60_000 }).toBe(1);
      await one.delete();
      return [set];
    });
    expect((await setting).quota.limits).toEqual(limits);
    expect((await store().quotas.find(admin, subject)).quota.limits).toEqual(limits);
    const entries = engine.sql()('audit_entries').where({ action: 'quota.put', target_id: admin.userId });
    expect(await entries.orderBy('sequence').pluck('before')).toEqual([null, null]);
  });
});
