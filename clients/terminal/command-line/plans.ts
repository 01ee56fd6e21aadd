/** The plans of agents on the command line. */
import { type Command, Option } from 'commander';
import { jsonOption, serverOption, withExample } from './describe.ts';

const idMeaning = 'of the plan or of its session: the id, or enough of its end to tell it apart';

/** `plans`. */
export function addPlans(program: Command): void {
  const plans = program
    .command('plans')
    .helpCommand(false)
    .description('What agents propose: read it, and say whether it is carried out.');
  withExample(plans, 'service plans list');
  withExample(
    plans
      .command('list')
      .description('List the plans, the latest first.')
      .option('-s, --session <id>', 'only those of this session')
      .addOption(
        new Option('--status <status>', 'only those in this state').choices([
          'draft',
          'proposed',
          'approved',
          'executing',
          'done',
          'failed',
          'rejected',
        ]),
      )
      .addOption(jsonOption())
      .addOption(serverOption())
      .action(async (options) => (await import('../commands/plans.ts')).listPlans(options)),
    'service plans list --status proposed',
  );
  withExample(
    plans
      .command('show')
      .description('Print a plan, and what became of it.')
      .argument('<id>', idMeaning)
      .addOption(jsonOption())
      .addOption(serverOption())
      .action(async (id: string, options) => (await import('../commands/plans.ts')).showPlan(id, options)),
    'service plans show 4b1tza',
  );
  addDecisions(plans);
}

/** `plans approve` and `plans reject`. */
function addDecisions(plans: Command): void {
  withExample(
    plans
      .command('approve')
      .description('Have a plan carried out, and follow the run that does it.')
      .argument('<id>', idMeaning)
      .option('--comment <words>', 'told to the agent with the plan')
      .addOption(versionOption())
      .option('-m, --model <name>', 'the model, as <provider>:<model_id>')
      .option('-a, --agent <slug>', 'who carries it out: coder, or one of service agents list')
      .addOption(new Option('--accept-edits', 'let files be changed without asking').conflicts('yolo'))
      .option('-q, --quiet', 'print the answer alone')
      .option('--json', 'print every event as one line of JSON')
      .option('-y, --yolo', 'let every tool call pass without asking')
      .option('--require-trust', 'end with exit code 3 instead of leaving out what is not trusted')
      .addOption(serverOption())
      .action(async (id: string, options) =>
        (await import('../commands/plan-approval.ts')).approvePlan(id, options),
      ),
    'service plans approve 4b1tza --comment "Begin with the tests."',
  );
  withExample(
    plans
      .command('reject')
      .description('Refuse a plan; the agent is told why at the next query of the session.')
      .argument('<id>', idMeaning)
      .argument('[why...]', 'what should be otherwise')
      .addOption(versionOption())
      .addOption(jsonOption())
      .addOption(serverOption())
      .action(async (id: string, why: string[], options) =>
        (await import('../commands/plans.ts')).rejectPlan(id, why, options),
      ),
    'service plans reject 4b1tza "Too much at once."',
  );
}

function versionOption(): Option {
  return new Option('--plan-version <number>', 'only where this is still its version');
}
