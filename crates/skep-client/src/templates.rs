//! The templates of a team, and their versions.

use reqwest::Method;
use skep_wire::rest::{
    AssignTags, AssignedTags, NewTemplate, RemoveTags, RequestedTemplate, Template, TemplateTag,
    TemplateVersion, TemplateVersions, UpdateTemplate, UpdatedTemplate, VersionFiles,
};

use crate::client::Client;
use crate::error::ClientError;
use crate::template_build::TemplateBuild;

/// The templates that the team of the client's key can use.
///
/// A reference is `name`, `name:tag`, `name:build` or `name@content`; the last two mean one version
/// for ever.
///
/// ```no_run
/// use skep_client::{BuildStep, Client, ClientError, NewTemplate, StartBuild};
///
/// # async fn example(client: Client) -> Result<(), ClientError> {
/// let templates = client.templates();
/// let new = NewTemplate {
///     name: Some("tools:v1".to_owned()),
///     ..NewTemplate::default()
/// };
/// let build = templates.build(&new).await?;
/// let step = BuildStep {
///     kind: "RUN".to_owned(),
///     args: Some(vec!["apt-get update".to_owned(), "root".to_owned()]),
///     ..BuildStep::default()
/// };
/// let order = StartBuild {
///     from_template: Some("base".to_owned()),
///     steps: Some(vec![step]),
///     ..StartBuild::default()
/// };
/// build.start(&order).await?;
/// let mut log = build.log();
/// while let Some(entries) = log.next().await? {
///     entries.iter().for_each(|entry| println!("{}", entry.message));
/// }
/// println!("{:?}", log.reason());
/// templates.assign_tags("tools:v1", &["default"]).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Templates<'a> {
    client: &'a Client,
}

impl<'a> Templates<'a> {
    pub(crate) fn new(client: &'a Client) -> Self {
        Self { client }
    }

    /// Asks for a new version of the template with a name, which is made if there is none. Nothing
    /// is built before [`TemplateBuild::start`].
    ///
    /// # Errors
    ///
    /// [`ClientError`], also if the team runs as many builds as it may.
    pub async fn build(&self, new: &NewTemplate) -> Result<TemplateBuild, ClientError> {
        let name = new.name.as_deref().unwrap_or_default();
        let operation = format!("ask for a build of template `{name}`");
        let url = self.client.url(&["v3", "templates"]);
        let request = self.client.request(Method::POST, url).json(new);
        let requested: RequestedTemplate = self.client.call(&operation, request).await?;
        Ok(TemplateBuild::new(self.client, requested))
    }

    /// All templates: those of the team, and those that belong to everybody.
    ///
    /// # Errors
    ///
    /// [`ClientError`]
    pub async fn list(&self) -> Result<Vec<Template>, ClientError> {
        let url = self.client.url(&["templates"]);
        let request = self.client.request(Method::GET, url);
        self.client.call("list templates", request).await
    }

    /// Returns true if a reference means a template that the team can use.
    ///
    /// # Errors
    ///
    /// [`ClientError`]
    pub async fn exists(&self, reference: &str) -> Result<bool, ClientError> {
        let operation = format!("look for template `{reference}`");
        let url = self.client.url(&["templates", "aliases", reference]);
        let request = self.client.request(Method::GET, url);
        match self.client.send(&operation, request).await {
            Ok(_) => Ok(true),
            Err(error) if matches!(error.status(), Some(400 | 403 | 404)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The version that a reference means, with everything that is known of it. Only Skep has it.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; not found if there is none.
    pub async fn version(&self, reference: &str) -> Result<TemplateVersion, ClientError> {
        let operation = format!("look at template `{reference}`");
        let url = self.client.url(&["skep", "templates", reference]);
        let request = self.client.request(Method::GET, url);
        self.client.call(&operation, request).await
    }

    /// All versions of a template, the newest first, with what its tags mean. Only Skep has it.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; not found if there is none.
    pub async fn history(&self, reference: &str) -> Result<TemplateVersions, ClientError> {
        let operation = format!("list the versions of template `{reference}`");
        let url = self.client.url(&["skep", "templates", reference, "builds"]);
        let request = self.client.request(Method::GET, url);
        self.client.call(&operation, request).await
    }

    /// Files in the layers of a version, without its lowest `below` layers. Only Skep has it.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; not found if there is none.
    pub async fn files(&self, reference: &str, below: usize) -> Result<VersionFiles, ClientError> {
        let operation = format!("list the files of template `{reference}`");
        let mut url = self.client.url(&["skep", "templates", reference, "files"]);
        url.query_pairs_mut()
            .append_pair("below", &below.to_string());
        let request = self.client.request(Method::GET, url);
        self.client.call(&operation, request).await
    }

    /// The tags of a template, and the build that was last given each.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; not found if there is no such template.
    pub async fn tags(&self, name: &str) -> Result<Vec<TemplateTag>, ClientError> {
        let operation = format!("list the tags of template `{name}`");
        let url = self.client.url(&["templates", name, "tags"]);
        let request = self.client.request(Method::GET, url);
        self.client.call(&operation, request).await
    }

    /// Gives tags to the version that a reference means. Their history stays.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; not found if it means none that is ready.
    pub async fn assign_tags(
        &self,
        target: &str,
        tags: &[&str],
    ) -> Result<AssignedTags, ClientError> {
        let operation = format!("give tags to template `{target}`");
        let body = AssignTags {
            target: target.to_owned(),
            tags: tags.iter().map(|&tag| tag.to_owned()).collect(),
        };
        let url = self.client.url(&["templates", "tags"]);
        let request = self.client.request(Method::POST, url).json(&body);
        self.client.call(&operation, request).await
    }

    /// Takes tags off a template. One that it does not have is no error.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; not found if there is no such template.
    pub async fn remove_tags(&self, name: &str, tags: &[&str]) -> Result<(), ClientError> {
        let operation = format!("take tags off template `{name}`");
        let body = RemoveTags {
            name: name.to_owned(),
            tags: tags.iter().map(|&tag| tag.to_owned()).collect(),
        };
        let url = self.client.url(&["templates", "tags"]);
        let request = self.client.request(Method::DELETE, url).json(&body);
        self.client.send(&operation, request).await.map(drop)
    }

    /// Lets other teams use a template, or not. Returns the names under which they find it.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; not found if there is no such template.
    pub async fn publish(&self, name: &str, public: bool) -> Result<Vec<String>, ClientError> {
        let operation = format!("publish template `{name}`");
        let body = UpdateTemplate {
            public: Some(public),
        };
        let url = self.client.url(&["v2", "templates", name]);
        let request = self.client.request(Method::PATCH, url).json(&body);
        let updated: UpdatedTemplate = self.client.call(&operation, request).await?;
        Ok(updated.names)
    }

    /// Deletes a template with all its versions.
    ///
    /// # Errors
    ///
    /// [`ClientError`], also if sandboxes or snapshots use it.
    pub async fn delete(&self, name: &str) -> Result<(), ClientError> {
        let operation = format!("delete template `{name}`");
        let url = self.client.url(&["templates", name]);
        let request = self.client.request(Method::DELETE, url);
        self.client.send(&operation, request).await.map(drop)
    }

    /// Deletes one version of a template. Only Skep can.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; a conflict if a tag means it, or sandboxes or snapshots use it.
    pub async fn delete_version(&self, name: &str, build: &str) -> Result<(), ClientError> {
        let operation = format!("delete version `{build}` of template `{name}`");
        let path = ["skep", "templates", name, "builds", build];
        let request = self.client.request(Method::DELETE, self.client.url(&path));
        self.client.send(&operation, request).await.map(drop)
    }
}
