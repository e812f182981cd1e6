//! The steps of a launch, in their order.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! steps {
    (
        launch { $($(#[$doc:meta])* $name:ident = $text:literal,)+ }
        beyond { $($(#[$other_doc:meta])* $other:ident = $other_text:literal,)+ }
    ) => {
        /// One step of a launch, a restore or a dump. One that fails names the step it failed at.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum Step {
            $($(#[$doc])* $name,)+
            $($(#[$other_doc])* $other,)+
        }

        impl Step {
            /// Every step of a launch, in its order.
            pub const ALL: &[Self] = &[$(Self::$name,)+];
        }

        impl fmt::Display for Step {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(match self {
                    $(Self::$name => $text,)+
                    $(Self::$other => $other_text,)+
                })
            }
        }
    };
}

steps! {
    launch {
        /// The plan is read from the socket.
        ReadPlan = "reading the plan",
        /// The launcher moves itself into the cgroups.
        JoinCgroups = "joining the cgroups",
        /// Resource limits and the readiness to be killed, while they can still be raised.
        SetLimits = "setting the limits",
        /// The launcher leaves the host's mount and network namespaces.
        LeaveNamespaces = "exiting the host's namespaces",
        /// The first process is made, in the namespaces that it owns.
        CloneProcess = "making the first process",
        /// The process, which has its cgroup namespace, is moved to where it lives in it.
        SettleCgroups = "setting the cgroups up",
        /// Ids are mapped.
        MapUsers = "mapping the users",
        /// The link to the host is made.
        MakeLink = "making the network link",
        /// Addresses and routes inside.
        ConfigureNetwork = "configuring the network",
        /// A loop device is attached to the image and its filesystem mounted.
        MountImage = "mounting the disk image",
        /// Layers are id-mapped and attached.
        MapLayers = "mapping the layers",
        /// The overlay is mounted.
        MountOverlay = "mounting the overlay",
        /// `/dev` is made.
        MakeDevices = "making the devices",
        /// `/run` and `/sys`.
        MountSystem = "mounting the system directories",
        /// Host files appear.
        BindFiles = "binding the host's files",
        /// The new root becomes the root.
        PivotRoot = "pivoting the root",
        /// `/proc` is mounted and masked.
        MountProc = "mounting proc",
        /// Volumes appear.
        ShowVolumes = "showing the volumes",
        /// The first process takes its own mount namespace.
        OwnMounts = "taking the mounts over",
        /// The first process becomes the user 0 of its namespace.
        BecomeRoot = "becoming root",
        /// Nothing inside may make namespaces.
        LimitNamespaces = "limiting namespaces",
        /// Files are written into the root.
        WriteFiles = "writing files",
        /// Host name, session, keyring, signals.
        SetUpProcess = "setting up the process",
        /// The bounding set is cut.
        DropCapabilities = "dropping capabilities",
        /// The filter is installed.
        InstallFilter = "installing the filter",
        /// User, groups and the last capabilities.
        BecomeUser = "becoming the user",
        /// Descriptors are put in their places and the program is executed.
        Execute = "executing the program",
        /// The process is handed over to the server.
        HandOver = "handing the process over",
    }
    beyond {
        /// Putting back the files of memory file systems.
        FillMemory = "filling the memory file systems",
        /// CRIU makes the processes.
        RestoreProcesses = "restoring the processes",
        /// CRIU writes the processes.
        DumpProcesses = "writing the processes",
    }
}
