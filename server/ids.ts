/** Ids: a prefix that names the noun, then a UUIDv7 in Crockford base32, so that they sort by time. */
import { typeidUnboxed } from 'typeid-js';

const prefixes = {
  user: 'usr',
  organization: 'org',
  workspace: 'ws',
  group: 'grp',
  invitation: 'ivt',
  session: 'ses',
  message: 'msg',
  run: 'run',
  apiKey: 'key',
  login: 'lgn',
  permissionRequest: 'prm',
  promptRequest: 'prq',
  grant: 'grt',
  agent: 'agt',
  catalog: 'cat',
  plan: 'plan',
  memory: 'mem',
  skill: 'skl',
  skillRepository: 'skr',
  providerSetting: 'pset',
  mcpServer: 'mcps',
  file: 'file',
  upload: 'upl',
  corpus: 'cor',
  document: 'doc',
  ingestionJob: 'ing',
  ingestionItem: 'itm',
  job: 'job',
  jobRun: 'jbr',
  extractedText: 'txt',
  chunk: 'chk',
  storedObject: 'obj',
  toolCall: 'call',
  auditEntry: 'aud',
  request: 'req',
} as const;

/** A new id of the given noun. Ids made later sort later. */
export function newId(noun: keyof typeof prefixes): string {
  return typeidUnboxed(prefixes[noun]);
}
