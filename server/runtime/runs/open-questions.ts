/** The questions to people that a run has open, its own and those of its agents: it waits as long as there is one. */

/** By the ids of the requests. */
export type OpenQuestions = Map<string, 'waiting_permission' | 'waiting_prompt'>;

/** How the run stands with them. */
export function statusWith(open: OpenQuestions): 'running' | 'waiting_permission' | 'waiting_prompt' {
  return [...open.values()].at(-1) ?? 'running';
}
