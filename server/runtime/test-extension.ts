/** What an extension is built from, for tests of one extension alone. */

import { createLog } from '../log.ts';
import { createOutbound } from '../outbound/outbound.ts';
import type { ExtensionParts } from './extension.ts';
import { keepLoginsInMemory } from './mcp/login-keeper.ts';
import { noOwnServers } from './mcp/own-servers.ts';

/** Empty settings of one person, no sandbox, templates taken literally; unless `more` says otherwise. */
export function testExtensionParts(more: Partial<ExtensionParts> = {}): ExtensionParts {
  return {
    first: { config: {}, shared: false },
    sandbox: { unavailable: 'not part of this test' },
    hiddenPaths: [],
    expand: async (value) => value,
    mcpLogins: keepLoginsInMemory(),
    ownMcpServers: noOwnServers,
    contextFiles: [],
    skillFolders: [],
    outbound: createOutbound({ shared: () => false }),
    log: createLog('silent'),
    ...more,
  };
}
