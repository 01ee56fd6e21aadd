/** `service agents`: who may answer in this folder, or on a server. */
import type { Agent } from '@service/client/api';
import { paginate } from '@service/client/pagination';
import { withService } from '../connection.ts';
import { brief, type Column, columnsOf, isTerminal, printTable } from '../output.ts';

/** All that `service run --agent` takes here, by slug. */
export async function listAgents(options: {
  readonly server?: string;
  readonly json?: boolean;
}): Promise<void> {
  const agents = await withService(options.server, async (client) => {
    const found: Agent[] = [];
    const pages = (page: object) =>
      client.GET('/api/v1/agents', { params: { query: { limit: 100, ...page } } });
    for await (const agent of paginate(pages)) found.push(agent);
    return found;
  });
  printTable(agents, columns(), { json: options.json ?? false });
}

function columns(): readonly Column<Agent>[] {
  const width = isTerminal() ? Math.max(20, columnsOf() - 40) : Number.POSITIVE_INFINITY;
  return [
    { title: 'agent', value: ({ slug }) => slug, style: 'bold' },
    { title: 'from', value: ({ source }) => source, style: 'dim' },
    { title: 'description', value: ({ description }) => brief(description, width) },
  ];
}
