/** Skills on the command line. */
import { type Command, Option } from 'commander';
import { jsonOption, serverOption, withExample } from './describe.ts';
import { addSkillRepositories } from './skill-repositories.ts';

const nameMeaning = 'its name, or the id where several have the name';
const placeMeaning = 'a folder with a SKILL.md, a SKILL.md, or a zip archive';

/** `skills`. */
export function addSkills(program: Command): void {
  const skills = program
    .command('skills')
    .helpCommand(false)
    .description('Skills: what agents can load before work of one kind, from all places.');
  withExample(skills, 'service skills list');
  addReading(skills);
  addMaking(skills);
  addSteering(skills);
  addSkillRepositories(skills);
}

/** `skills list` and `skills show`. */
function addReading(skills: Command): void {
  withExample(
    skills
      .command('list')
      .description('List the skills, where each is from, and whether agents are offered it.')
      .addOption(jsonOption())
      .addOption(serverOption())
      .action(async (options) => (await import('../commands/skills.ts')).listSkills(options)),
    'service skills list',
  );
  withExample(
    skills
      .command('show')
      .description('Print what a skill is for, and its files.')
      .argument('<skill>', nameMeaning)
      .addOption(new Option('--text', 'print its SKILL.md instead').conflicts('json'))
      .addOption(jsonOption())
      .addOption(serverOption())
      .action(async (name: string, options) =>
        (await import('../commands/skills.ts')).showSkill(name, options),
      ),
    'service skills show jq',
  );
}

/** `skills validate`, `skills add` and `skills update`. */
function addMaking(skills: Command): void {
  withExample(
    skills
      .command('validate')
      .description('Say all that is wrong with a skill, with file and line, and keep nothing.')
      .argument('<path>', placeMeaning)
      .addOption(jsonOption())
      .addOption(serverOption())
      .action(async (path: string, options) =>
        (await import('../commands/skill-making.ts')).validateSkill(path, options),
      ),
    'service skills validate ./release-notes',
  );
  withExample(
    skills
      .command('add')
      .description('Add a skill for your own runs, or as an admin for all runs of a scope.')
      .argument('<path>', placeMeaning)
      .addOption(scopeOption('for whose runs; user if absent'))
      .addOption(serverOption())
      .action(async (path: string, options) =>
        (await import('../commands/skill-making.ts')).addSkill(path, options),
      ),
    'service skills add ./release-notes --scope workspace --server https://agents.example.com',
  );
  withExample(
    skills
      .command('update')
      .description('Put other files in the place of those of an added skill, which is known by its name.')
      .argument('<path>', placeMeaning)
      .addOption(scopeOption('whose, where several have the name'))
      .addOption(serverOption())
      .action(async (path: string, options) =>
        (await import('../commands/skill-making.ts')).updateSkill(path, options),
      ),
    'service skills update ./release-notes --server https://agents.example.com',
  );
}

/** `skills enable`, `skills disable` and `skills remove`. */
function addSteering(skills: Command): void {
  const steps = {
    enable: 'Take back what disable did in the same scope.',
    disable: 'Hide the name of a skill from agents, whichever skill bears it.',
  } as const;
  for (const [step, description] of Object.entries(steps))
    withExample(
      skills
        .command(step)
        .description(description)
        .argument('<skill>', nameMeaning)
        .addOption(scopeOption('for whose runs; user if absent'))
        .addOption(serverOption())
        .action(async (name: string, options) =>
          (await import('../commands/skill-steering.ts')).switchSkill(
            step as keyof typeof steps, // the entries are those of `steps`
            name,
            options,
          ),
        ),
      `service skills ${step} jq --scope workspace --server https://agents.example.com`,
    );
  withExample(
    skills
      .command('remove')
      .description('Remove an added skill, with its files.')
      .argument('<skill>', nameMeaning)
      .addOption(scopeOption('whose, where several have the name'))
      .option('-y, --yes', 'without asking')
      .addOption(serverOption())
      .action(async (name: string, options) =>
        (await import('../commands/skill-steering.ts')).removeSkill(name, options),
      ),
    'service skills remove release-notes --server https://agents.example.com',
  );
}

function scopeOption(meaning: string): Option {
  return new Option('--scope <scope>', meaning).choices(['user', 'workspace', 'organization']);
}
