import { createHash } from 'node:crypto';
import { expect, it } from 'vitest';
import type { ExportedMessage, MessagePart, SessionExport } from '../contract/api.ts';
import { beginRun, endRun } from './test-runs.ts';
import { describeStores, newAccount } from './test-stores.ts';

const mib = 1024 * 1024;
/** As much as a model is shown at once. */
const shownMib = 32;

type FilePart = Extract<MessagePart, { type: 'file' }>;

const hashOf = (content: Buffer) => createHash('sha256').update(content).digest('hex');
const bytes = Buffer.alloc(mib, 'a');
const sha256 = hashOf(bytes);
const otherBytes = Buffer.from('another picture');
const whole: FilePart = { type: 'file', media_type: 'image/png', data: bytes.toString('base64') };
const other: FilePart = { type: 'file', media_type: 'image/png', data: otherBytes.toString('base64') };
const named: FilePart = { type: 'file', media_type: 'image/png', sha256 };

function document(...parts: MessagePart[]): SessionExport {
  const created_at = '2026-11-21T08:00:00.000Z';
  const facts = { title: 'Pictures', agent_slug: 'coder', model: null, system_prompt: null };
  const said = { role: 'user' as const, model: null, stop_reason: null, usage: null, created_at };
  return {
    format_version: 1,
    exported_at: created_at,
    session: { ...facts, tags: [], metadata: {}, created_at },
    messages: parts.map((part): ExportedMessage => ({ ...said, parts: [part] })),
  };
}

describeStores('Files of messages', (store, engine) => {
  const workspaceOf = async (reach: Awaited<ReturnType<typeof newAccount>>) =>
    (await store().workspaces.defaultOf(reach))?.id ?? '';

  it('are told of by what the session has, whatever a document says of them', async () => {
    const reach = await newAccount(store());
    const unknown = 'f'.repeat(64);
    const parts = [
      { ...named, size: 5 },
      whole,
      { ...named, size: 5 },
      { ...named, sha256: unknown, size: 5 },
      { ...named, url: 'https://pictures.example/a.png' },
    ];
    const { session } = await store().sessionImports.add(reach, await workspaceOf(reach), document(...parts));
    const { data } = await store().messages.list(reach, session.id, {});
    const bare = { type: 'file', media_type: 'image/png' };
    const kept = { ...bare, sha256, size: mib };
    expect(data.map((message) => message.parts[0])).toEqual([
      bare,
      kept,
      kept,
      bare,
      { ...kept, url: 'https://pictures.example/a.png' },
    ]);
  });

  it('are neither imported nor copied beyond a quota that the operator has set everywhere', async () => {
    const reach = await newAccount(store());
    const workspaceId = await workspaceOf(reach);
    const add = () => store().sessionImports.add(reach, workspaceId, document(whole));
    const { session } = await add();
    const operator = { ...reach, operator: true, needs: 'admin' as const };
    const limits = { storage: { hard: mib + 1 } };
    const subject = { type: 'user' as const, id: reach.userId };
    const { quota } = await store().quotas.put(operator, subject, limits);
    expect(quota.organization_id).toBeNull();
    const exceeded = { code: 'quota_exceeded', quota: { used: mib } };
    await expect(add()).rejects.toMatchObject(exceeded);
    await expect(store().history.fork(reach, session.id, {})).rejects.toMatchObject(exceeded);
    const stranger = await newAccount(store());
    const hidden = { code: 'not_found' };
    await expect(store().history.fork(stranger, session.id, {})).rejects.toMatchObject(hidden);
    const theirs = store().sessionImports.add(stranger, workspaceId, document());
    await expect(theirs).rejects.toMatchObject(hidden);
  });

  it('are shown as far as their bytes go, however often and as what they are named', async () => {
    const reach = await newAccount(store());
    const references = Array.from({ length: 40 }, () => named);
    const given = document(whole, ...references);
    const { session } = await store().sessionImports.add(reach, await workspaceOf(reach), given);
    const run = await beginRun(store(), reach, { sessionId: session.id });
    const shown = async () => {
      const read = await store().transcript.readMessages(session.id, run.runId);
      const parts = read.flatMap((message) => message.parts).filter((part) => part.type === 'file');
      const files = await store().transcript.readFiles(
        session.id,
        parts.map((part) => part.sha256 ?? ''),
      );
      return files.filter((file) => file === whole.data).length;
    };
    expect(await shown()).toBe(shownMib);
    // As one that was imported when nothing was asked about the size.
    await engine
      .sql()('messages')
      .where({ session_id: session.id, run_number: 0 })
      .update({ parts: JSON.stringify([{ ...named, size: 0 }]) });
    expect(await shown()).toBe(shownMib);
    await endRun(store(), run);
  });

  it('go with the last message that names them, and count no longer', async () => {
    const reach = await newAccount(store());
    const operator = { ...reach, operator: true, needs: 'admin' as const };
    const subject = { type: 'user' as const, id: reach.userId };
    await store().quotas.put(operator, subject, { storage: { hard: 100 * mib } });
    const given = document(whole, { type: 'text', text: `its hash is "sha256":"${sha256}"` }, named, other);
    const { session } = await store().sessionImports.add(reach, await workspaceOf(reach), given);
    const kept = () => engine.sql()('file_contents').where({ session_id: session.id }).pluck('sha256');
    const used = async () => (await store().quotas.find(operator, subject)).quota.use[0]?.used;
    const [first, , again, last] = (await store().messages.list(reach, session.id, {})).data;
    const forget = (message = first) => store().history.deleteMessage(reach, session.id, message?.id ?? '');
    expect(await used()).toBe(mib + otherBytes.length);
    await forget(first);
    expect(await kept()).toHaveLength(2);
    const plan = await store().history.planRevert(reach, session.id, again?.id ?? '');
    await store().history.revert(reach, plan, false, async () => undefined);
    await forget(last);
    expect(await kept()).toEqual([sha256]);
    expect(await used()).toBe(mib);
    await forget(again);
    expect(await kept()).toEqual([]);
    expect(await used()).toBe(0);
  });

  it('stay where a change of a file holds the same bytes', async () => {
    const reach = await newAccount(store());
    const run = await beginRun(store(), reach, { parts: [whole] });
    const after = { sha256, size: mib, bytes };
    const change = { ...run, toolCallId: 'call_1', path: 'a.png', mode: null, before: null, after };
    await store().transcript.recordChange(change);
    await endRun(store(), run);
    const [prompt] = (await store().messages.list(reach, run.sessionId, {})).data;
    await store().history.deleteMessage(reach, run.sessionId, prompt?.id ?? '');
    expect(await store().fileChanges.content(reach, run.sessionId, sha256)).toHaveLength(mib);
  });

  it('stay with a prompt whose text is changed', async () => {
    const reach = await newAccount(store());
    const text: MessagePart = { type: 'text', text: 'What is tihs?' };
    const run = await beginRun(store(), reach, { parts: [whole, text, text, other] });
    await endRun(store(), run);
    const [prompt] = (await store().messages.list(reach, run.sessionId, {})).data;
    const patch = { text: 'What is this?' };
    const { message } = await store().history.updateMessage(reach, run.sessionId, prompt?.id ?? '', patch);
    const { data: _first, ...first } = { ...whole, sha256, size: mib };
    expect(message.parts).toEqual([
      first,
      { type: 'text', text: 'What is this?' },
      { type: 'file', media_type: 'image/png', sha256: hashOf(otherBytes), size: otherBytes.length },
    ]);
    const next = await beginRun(store(), reach, { sessionId: run.sessionId });
    expect(await store().transcript.readFiles(run.sessionId, [sha256])).toEqual([whole.data]);
    await endRun(store(), next);
  });
});
