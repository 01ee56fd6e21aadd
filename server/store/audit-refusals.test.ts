/** What is refused is recorded, and a flood of it bounded. */
import { expect, it } from 'vitest';
import { refusalLimits } from './audit-refusals.ts';
import type { Refusal } from './store.ts';
import { describeStores, newAccount, reachOfNobody } from './test-stores.ts';

const operator = { ...reachOfNobody('usr_operator'), operator: true };
const from = (address: string) => ({ requestId: 'req_1', address, credential: null });
const refusal = (actor: Refusal['actor'], more: Partial<Refusal> = {}): Refusal => ({
  actor,
  action: 'access.refuse',
  target: { type: 'session', id: 'ses_1' },
  reason: 'not_found',
  operation: 'getSession',
  ...more,
});

describeStores('What was refused', (store, engine) => {
  const refused = async () =>
    (await store().auditLogs.list(operator, { outcome: 'refused', limit: 100 })).data;

  it('is recorded for the admins of whoever tried, or of whom it was tried on', async () => {
    const ada = await newAccount(store(), 'Ada');
    store().auditRefusals.note(refusal({ userId: ada.userId, origin: from('192.0.2.1') }));
    store().auditRefusals.note(
      refusal(
        { userId: null, origin: from('192.0.2.2') },
        { action: 'login.refuse', reason: 'login_failed', target: { type: 'user', id: ada.userId } },
      ),
    );
    store().auditRefusals.note(
      refusal(
        { userId: null, origin: from('192.0.2.3') },
        { action: 'login.refuse', target: { type: 'email', id: 'no@example.com\r\nforged\u001b[2K' } },
      ),
    );
    await store().auditRefusals.settled();
    const entries = await refused();
    const [organization_id] = ada.organizationIds;
    expect(entries).toHaveLength(3);
    expect(entries).toContainEqual(
      expect.objectContaining({
        organization_id,
        actor: { type: 'user', id: ada.userId, credential_type: null, credential_id: null },
        action: 'access.refuse',
        reason: 'not_found',
        target: { type: 'session', id: 'ses_1' },
        ip: '192.0.2.1',
        request_id: 'req_1',
        after: { operation: 'getSession' },
      }),
    );
    expect(entries).toContainEqual(
      expect.objectContaining({
        organization_id,
        action: 'login.refuse',
        target: { type: 'user', id: ada.userId },
        actor: { type: 'anonymous', id: null, credential_type: null, credential_id: null },
      }),
    );
    expect(entries).toContainEqual(
      expect.objectContaining({
        organization_id: null,
        target: { type: 'email', id: 'no@example.com\\u000d\\u000aforged\\u001b[2K' },
      }),
    );
  });

  it('is counted where one source does not stop, and the count recorded when the window is over', async () => {
    engine.clock.advance(refusalLimits.windowMs);
    const before = (await refused()).length;
    const tries = refusalLimits.ofSource + 30;
    for (let count = 0; count < tries; count += 1)
      store().auditRefusals.note(refusal({ userId: null, origin: from('198.51.100.9') }));
    store().auditRefusals.note(refusal({ userId: null, origin: from('198.51.100.10') }));
    engine.clock.advance(refusalLimits.windowMs);
    store().auditRefusals.note(refusal({ userId: null, origin: from('198.51.100.11') }));
    await store().auditRefusals.settled();
    const entries = (await refused()).slice(0, -before);
    expect(entries.filter(({ ip }) => ip === '198.51.100.9')).toHaveLength(refusalLimits.ofSource);
    expect(entries.filter(({ ip }) => ip === '198.51.100.10')).toHaveLength(1);
    expect(entries.filter(({ ip }) => ip === '198.51.100.11')).toHaveLength(1);
    expect(entries.find(({ target }) => target.type === 'installation')).toMatchObject({
      actor: { type: 'system' },
      after: { not_recorded: 30, sources: ['198.51.100.9: 30'] },
    });
  });

  it('of all unknown sources together has a bound too, which leaves room for what known people try', async () => {
    engine.clock.advance(refusalLimits.windowMs);
    const ada = await newAccount(store(), 'Ada');
    const count = async (filter: object) => {
      const [row] = await engine.sql()('audit_entries').where(filter).count({ count: '*' });
      return Number(row?.count);
    };
    const before = await count({ actor_type: 'anonymous' });
    for (let source = 0; source < 3 * refusalLimits.ofKind; source += 1) {
      store().auditRefusals.note(refusal({ userId: null, origin: from(`2001:db8::${source}`) }));
      // As requests come: one after the other, each with its own turn.
      if (source % 20 === 0) await store().auditLogs.head();
    }
    store().auditRefusals.note(refusal({ userId: ada.userId, origin: from('192.0.2.1') }));
    await store().auditRefusals.settled();
    const recorded = (await count({ actor_type: 'anonymous' })) - before;
    expect(recorded).toBeGreaterThan(0);
    expect(recorded).toBeLessThanOrEqual(refusalLimits.ofKind);
    expect(await count({ actor_id: ada.userId, outcome: 'refused' })).toBe(1);
  });
});
