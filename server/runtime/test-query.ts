/** A query as a program hands it to a runtime, for tests that care about one part of it. */
import type { Query } from './runtime.ts';

/** Says something in the one session; nobody can be asked, unless `more` says otherwise. */
export function testQuery(text: string, more: Partial<Query> = {}): Query {
  return {
    session: {
      id: 'ses_1',
      workspaceId: 'ws_1',
      agentSlug: 'coder',
      model: null,
      systemPrompt: null,
      permissionRules: [],
    },
    userId: 'usr_1',
    trigger: 'api',
    messages: [{ role: 'user', parts: [{ type: 'text', text }] }],
    onUnanswered: 'deny',
    ...more,
  };
}
