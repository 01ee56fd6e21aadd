/** Has a prepared tool call decided, by the rules or by a person, who may change its input before it runs. */
import type { PermissionRequest, PermissionRule, ToolUse } from '../../contract/api.ts';
import type { EventLog } from '../events/event-log.ts';
import { clip, longestReason } from '../hooks/hooks-opinion.ts';
import type { CallRecord } from '../runs/call-record.ts';
import type { CallStart } from '../runs/call-start.ts';
import { askPermission, tellPermission } from '../runs/questions.ts';
import type { RunScope } from '../runs/run-scope.ts';
import type { PermissionNeed, PreparedCall, ToolContext, ToolOutput } from '../tools/tool.ts';
import { decide, hiddenBy, type Verdict } from './permissions.ts';

/** A tool call as the hooks left it. */
interface AskedCall {
  readonly call: ToolUse;
  readonly prepared: PreparedCall;
  readonly hookAllows: boolean;
  readonly record: CallRecord | undefined;
  readonly start: CallStart;
  /** Prepares the call once more, with the input that a person gave it; answers with what the tool objects to. */
  prepare(call: ToolUse): Promise<PreparedCall | ToolOutput>;
}

/** What is to be run, and what the person changed in it; or what the model is told in place of that. */
export interface Permit {
  readonly prepared: PreparedCall | ToolOutput;
  /** Empty where nothing was changed. */
  readonly changed: Readonly<Record<string, unknown>>;
}

/** Rejects when the store does. */
export async function permit(scope: RunScope, log: EventLog, asked: AskedCall): Promise<Permit> {
  const { call, prepared, record } = asked;
  const { permission } = prepared;
  const unchanged = (outcome: PreparedCall | ToolOutput): Permit => ({ prepared: outcome, changed: {} });
  const verdict = await decideIn(scope, call, permission, asked.hookAllows);
  if (verdict.verdict === 'deny') return unchanged(refusal(`Permission denied. ${verdict.reason}`));
  if (!permission) return unchanged(prepared);
  const stored =
    record?.permission && isAbout(record.permission.request, permission) ? record.permission : null;
  // Whoever was asked before the process died is still waited for, though a rule would allow the call by now.
  if (verdict.verdict === 'allow' && !stored) return unchanged(prepared);
  if (scope.onUnanswered === 'deny') {
    await asked.start.tell();
    return unchanged(await refuseUnasked(log, call));
  }
  const grants = verdict.verdict === 'ask' ? verdict.grants : [];
  const answer = await askPermission(scope, asked.start, call, permission, grants, stored);
  if (!answer) return unchanged(refusal('Permission denied.'));
  const { question, request, message } = answer;
  const allowed = request.decision !== null && request.decision !== 'deny';
  // Before it is told: from then on nobody knows, after a crash, whether the call has run.
  const permitted = !allowed
    ? unchanged(refusedBy(request, message))
    : request.updated_input === null
      ? unchanged(await unlessDeniedSince(scope, asked))
      : await permitChanged(scope, log, asked, { ...request, updated_input: request.updated_input });
  if (!question.told) await tellPermission(scope, log, call, question, request);
  return permitted;
}

/** What the model is told where the tool objects to the input: nothing of what is there, where a rule denies what it names. */
export async function unlessDenied(
  scope: RunScope,
  call: ToolUse,
  objection: ToolOutput,
): Promise<ToolOutput> {
  const verdict = await decideIn(scope, call, null, false);
  return verdict.verdict === 'deny' ? refusal(`Permission denied. ${verdict.reason}`) : objection;
}

/** While somebody is asked, minutes on end, a rule may have come that nobody's leave counts against. */
async function unlessDeniedSince(
  scope: RunScope,
  { call, prepared }: AskedCall,
): Promise<PreparedCall | ToolOutput> {
  const now = await decideIn(scope, call, prepared.permission, false);
  return now.verdict === 'deny' ? refusal(`Permission denied. ${now.reason}`) : prepared;
}

/** Whoever wrote the input has allowed it by that; what nobody can allow still counts against it. */
async function permitChanged(
  scope: RunScope,
  log: EventLog,
  { call, prepare }: AskedCall,
  request: PermissionRequest & { readonly updated_input: NonNullable<PermissionRequest['updated_input']> },
): Promise<Permit> {
  const changed = differing(call.input, request.updated_input);
  const changedCall = { ...call, input: { ...call.input, ...changed } };
  const prepared = await prepare(changedCall);
  const need = 'content' in prepared ? null : prepared.permission;
  const verdict = await decideIn(scope, changedCall, need, false);
  if (verdict.verdict === 'deny')
    return { prepared: refusal(`Permission denied for the changed input. ${verdict.reason}`), changed };
  if ('content' in prepared) {
    const objection = `The person who allowed this call changed its input, and it cannot run so: ${prepared.content}`;
    return { prepared: refusal(objection), changed };
  }
  if (verdict.verdict === 'ask' && request.decision !== 'allow_once') {
    await scope.transcript.addGrants(request.id, verdict.grants);
    if (verdict.grants.length === 0) await tellOnlyOnce(log, call);
  }
  return { prepared, changed };
}

async function decideIn(
  scope: RunScope,
  call: ToolUse,
  need: PermissionNeed | null,
  hookAllows: boolean,
): Promise<Verdict> {
  const { permissions } = await scope.settings();
  return decide(call, need, {
    workspacePath: scope.workspacePath,
    mode: scope.permissionMode,
    rules: await rulesOf(scope),
    allowedTools: permissions?.allowed_tools ?? [],
    hookAllows,
    grants: need ? await scope.transcript.readGrants(scope.sessionId) : [],
  });
}

async function rulesOf(scope: RunScope): Promise<readonly PermissionRule[]> {
  const [own, ofWorkspace] = await Promise.all([scope.rules(), scope.workspaceRules()]);
  return [...own, ...ofWorkspace];
}

/** What the rules keep from a search of this tool; null where they keep nothing from it. */
export async function hiddenFrom(scope: RunScope, toolName: string): ReturnType<ToolContext['hidden']> {
  return hiddenBy(await rulesOf(scope), toolName);
}

async function refuseUnasked(log: EventLog, { id, name }: ToolUse): Promise<ToolOutput> {
  await log.push({
    name: 'runtime',
    data: { type: 'permission_resolved', request_id: null, tool_call_id: id, decision: 'deny' },
  });
  return refusal(
    `Permission denied. The tool ${name} needs a person's permission, and nobody can be asked here: a rule has to allow it (of a job, its permission_rules), or the query has to be streamed.`,
  );
}

async function tellOnlyOnce(log: EventLog, { name }: ToolUse): Promise<void> {
  const message = `The call of ${name} was allowed as it was changed, but only this once: calls like it cannot be told apart from others.`;
  await log.push({ name: 'runtime', data: { type: 'notice_given', message } });
}

function refusedBy({ decision }: PermissionRequest, message: string | null): ToolOutput {
  if (decision === null) return refusal('Permission denied. Nobody answered in time.');
  return refusal(`Permission denied.${message ? ` The person said: ${message}` : ''}`);
}

/** Whether a person who answers the request decides about this very call: a hook or the file may have changed since. */
function isAbout({ params, diff }: PermissionRequest, need: PermissionNeed): boolean {
  return json(params) === json(need.params) && diff === (need.diff ?? null);
}

/** Some send the whole input back, with one member changed. */
function differing(input: ToolUse['input'], updated: ToolUse['input']): ToolUse['input'] {
  return Object.fromEntries(
    Object.entries(updated).filter(
      ([name, value]) => !Object.hasOwn(input, name) || json(input[name]) !== json(value),
    ),
  );
}

/** What the model is told of a change: it has to know what ran. */
export function noteOfChange({ changed }: Permit): string {
  const names = Object.keys(changed);
  return names.length === 0
    ? ''
    : `[The person changed the input of this call: ${clip(json(changed), longestReason)}]`;
}

function json(value: unknown): string {
  return JSON.stringify(value);
}

function refusal(content: string): ToolOutput {
  return { content, is_error: true };
}
